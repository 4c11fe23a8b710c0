"""The host half of a cubin: recipes of tensor maps, and the object file that follows them before each launch."""
