"""What only a GPU answers: `prepare` builds everything on a machine without one, `run` measures on a machine with one,
`report` writes the answers into docs/hardware.md."""
