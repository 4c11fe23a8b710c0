"""Facts about the machine: which SMs exist and what each can do. Below everything that compiles."""
