"""What the application can do, a layer over the other: look, go, operate, note."""
