"""RUN lines of the public tests that don't pass, and why. What isn't named here must pass."""
from __future__ import annotations

TESTING_BUILD = "ops and versions (250.0, 250.1) that exist only in builds of the reference for its own tests"

KNOWN: dict[str, str] = {
    "Bytecode/list_versions.mlir": TESTING_BUILD,
    "Bytecode/versioning/test_forward_compatibility.mlir": TESTING_BUILD,
    "Bytecode/versioning/test_version_250_1.mlir": TESTING_BUILD,
    "Bytecode/versioning/test_version_errors.mlir": TESTING_BUILD,
    "Bytecode/invalid/invalid_structure.mlir": "of the file invalid_attribute_name.bc, whose table of strings is out of order "
                                               "as well, that is said first: all tables are checked before use",
    "Transforms/loop_split.mlir": "a pass of the public optimizer that this project doesn't have; the file is read, "
                                  "verified and printed",
}
"""By the test's path under `test`."""
