"""The ways out: sockets around `wire` and `policy`, accepted outside the sandbox, each attempt recorded."""
