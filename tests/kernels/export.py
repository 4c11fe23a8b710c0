"""Write bytecode of one case of the suite: `python -m tests.kernels.export NAME [VERSION] -o FILE`."""
from __future__ import annotations

import argparse
import pathlib
import shutil
import sys

from tests.kernels import runner


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="export", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("version", nargs="?", help="bytecode version, e.g. 13.1 (default: the case's newest)")
    parser.add_argument("-o", dest="out", type=pathlib.Path, required=True)
    a = parser.parse_args(argv)
    if a.name not in runner.cases():
        print(f"error: no case named {a.name}", file=sys.stderr)
        return 1
    shutil.copyfile(runner.bytecode_path(a.name, a.version), a.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
