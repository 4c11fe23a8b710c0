"""What is measured, with its reference beside it: `make demo` and `make bench`."""
