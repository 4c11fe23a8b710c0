"""A launch from end to end: program, engine, report."""
