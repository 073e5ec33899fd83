"""What lies over the views: the prompt, menus, documents in full."""
