"""The terminal cockpit: shows cells and holds no truth of its own."""
