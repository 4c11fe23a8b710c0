"""PTX text: its parser, its types, and which target has which instruction."""
