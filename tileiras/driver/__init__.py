"""The command line and everything a compilation is told from outside: targets, options, exit codes."""
