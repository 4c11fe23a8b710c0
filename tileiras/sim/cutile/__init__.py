"""cuTile Python without a GPU: an unmodified program's `ct.launch` takes NumPy arrays or CPU tensors and simulates.

    python -m tileiras.sim.cutile [--gpu sm_90] program.py [ARGUMENT ...]        # or, at the top of a program:

    import tileiras.sim.cutile
    tileiras.sim.cutile.install(gpu_name="sm_90")

    pytest -p tileiras.sim.pytest_plugin tests/                                  # a whole suite

Where PyTorch is installed and sees no GPU, the program's 'cuda' tensors live on the CPU. Only programs that ask for it are
touched, and `uninstall()` gives everything back.

    arguments    what the compiler may assume of a launch's arguments, and the parameters that they become
    specialize   the bytecode of a kernel for them, from the frontend
    standin      what replaces the frontend's launcher
    torchcuda    'cuda' tensors and torch.cuda
    cupyarrays   CuPy on NumPy
    children     Python programs that the program starts; `child`: their side
    imports      what is done once a module has been imported
    budget       the account of launches, instructions and findings
"""
from __future__ import annotations

from tileiras.sim.cutile.arguments import Flattened, Held, as_array, flatten
from tileiras.sim.cutile.errors import ArgumentOverflowError, ArgumentTypeError, ArgumentValueError
from tileiras.sim.cutile.specialize import Exported, export
from tileiras.sim.cutile.standin import DEFAULT_GPU, install, reports, uninstall

__all__ = ["DEFAULT_GPU", "ArgumentOverflowError", "ArgumentTypeError", "ArgumentValueError", "Exported", "Flattened", "Held",
           "as_array", "export", "flatten", "install", "reports", "uninstall"]
