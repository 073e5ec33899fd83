"""Pictures of the cockpit, drawn from an invented job: `make screenshots`."""
