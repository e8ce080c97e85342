"""The commands, one per module: `add_arguments(parser)` and `run(arguments) -> exit code`."""
