"""Instructions that reach memory or other threads: loads, atomics, barriers, exchanges, calls."""
