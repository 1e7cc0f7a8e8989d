"""The command line: one file per group of commands, thin, with no logic of its own."""
