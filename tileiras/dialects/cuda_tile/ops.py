"""All ops of cuda_tile 13.1 to 13.4 by name: the import surface for passes, reader, writer and printer."""
from __future__ import annotations

from tileiras.dialects.cuda_tile import arith_ops, control_ops, memory_ops, shape_ops
from tileiras.dialects.cuda_tile.arith_ops import *  # noqa: F403
from tileiras.dialects.cuda_tile.control_ops import *  # noqa: F403
from tileiras.dialects.cuda_tile.memory_ops import *  # noqa: F403
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.shape_ops import *  # noqa: F403

OPS: tuple[type[CudaTileOp], ...] = arith_ops.OPS + shape_ops.OPS + memory_ops.OPS + control_ops.OPS
