"""Who saw what: order between threads and engines, shadows of memory, values in flight."""
