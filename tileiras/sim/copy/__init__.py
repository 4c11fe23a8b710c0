"""Asynchronous copies: cp.async, bulk copies, tensor maps and their boxes."""
