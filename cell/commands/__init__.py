"""The subcommands of `cell`, a module per group: parsed arguments in, an exit status out."""
