"""How a module of any level is written: cuda_tile in the public dialect's syntax, what is below in MLIR's generic form."""
from __future__ import annotations

from xdsl.ir import Operation


def module_text(module: Operation) -> str:
    """The module as text that ends in one newline."""
    if module.name == "cuda_tile.module":
        from tileiras.dialects.cuda_tile.asm_print import print_module

        return print_module(module)
    return f"{str(module).rstrip()}\n"
