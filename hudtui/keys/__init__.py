"""The person's keyboard: what it sends, cut into strokes, and what they are called."""
