"""Measurements against a floor or a peer in the same run; `make bench` prints medians."""
