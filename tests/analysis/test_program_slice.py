"""An agent's slice of a program is a valid one: what waits for nothing in it does so in every loop of its own."""
import cuda.tile as ct
import numpy as np
import pytest

import tileiras
from tileiras.sim.cutile import export


@ct.kernel
def until_told(a, flags, out):
    """The first iteration, which takes the other branch, stands in front of the loop; each asks memory whether it is the last."""
    for i in range(ct.bid(0), 2, ct.num_blocks(0)):
        x = y = ct.load(a, (i, 0, 0), (1, 32, 32))
        for k in range(4):
            x = ct.load(a, (i, k, 0), (1, 32, 32))
            if k > 0:
                y = y + ct.cumsum(ct.load(a, (i, (k + 1) % 4, 0), (1, 32, 32)), axis=1)
            else:
                y = -y
            if ct.load(flags, (i, k), ()) == 3:
                break
        ct.store(out, (i, 0, 0), x + y)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_two_loops_that_load_what_tells_them_to_end(gpu: str) -> None:
    arrays = np.zeros((2, 128, 32), np.float32), np.zeros((2, 4), np.int32), np.zeros((2, 32, 32), np.float32)
    tileiras.compile(export(until_told, arrays, gpu).bytecode, gpu_name=gpu, verify_each=True)
