"""CUDA Tile C++: kernels, their bytecode, what they compute."""
