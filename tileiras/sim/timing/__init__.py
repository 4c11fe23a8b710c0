"""How long a kernel takes on a named machine, without that machine: its machine code, walked as the functional run went."""
