"""RUN lines of the public tests that don't pass, and why. What isn't named here must pass."""
from __future__ import annotations

KNOWN: dict[str, str] = {
    "Bytecode/invalid/invalid_structure.mlir": "of the file invalid_attribute_name.bc, whose table of strings is out of order "
                                               "as well, that is said first: all tables are checked before use",
    "Transforms/loop_split.mlir": "a pass of the public optimizer that this project doesn't take over: it splits a loop "
                                  "before `i <= n` at n + 1, which may overflow, and the loop then runs too few times; the "
                                  "file is read, verified and printed",
}
"""By the test's path under `test`."""
