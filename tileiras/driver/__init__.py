"""The command line and everything a compilation is told from outside: options, exit codes."""
