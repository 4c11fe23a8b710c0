"""Matrix instructions of warps and warpgroups, and what they read."""
