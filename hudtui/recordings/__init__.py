"""Recordings: read while they are written, and taken to any moment."""
