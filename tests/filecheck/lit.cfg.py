"""lit: files of `tests/filecheck` run the project's command lines and compare what they print with CHECK lines.

RUN lines name the tools plainly (`tileiras-opt`, `tileirdisasm`, `tileiras`, `tileiras-translate`, `tileiras-sim`,
`filecheck`); they run as modules of the Python that runs lit, so a checkout needn't be installed. Bytecode of a case of
the kernel suite comes from `export-kernel NAME [VERSION] -o FILE`.
"""
import os
import pathlib
import sys

import lit.formats

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BIN = pathlib.Path(sys.executable).parent

config = globals()["config"]    # lit gives it
config.name = "tileiras"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = str(HERE)
config.test_exec_root = str(ROOT / "build" / "filecheck")
config.environment["PATH"] = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
config.environment["PYTHONPATH"] = str(ROOT)

for name, module in (
    ("tileiras-translate", "tileiras.tools.tileiras_translate"),
    ("tileiras-opt", "tileiras.tools.tileiras_opt"),
    ("tileiras-sim", "tileiras.tools.tileiras_sim"),
    ("tileirdisasm", "tileiras.tools.tileirdisasm"),
    ("tileiras", "tileiras.driver.main"),
    ("export-kernel", "tests.kernels.export"),
):
    # The whole word only: not part of a path, an option or a longer name.
    config.substitutions.append((rf"(?<![\w./=-]){name}(?![\w./=-])", f"{sys.executable} -m {module}"))
