"""The fifth tensor core: tensor memory, its products and its copies."""
