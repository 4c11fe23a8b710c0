"""13.5, which the public frontend's development version writes: what of it can be read, is; the rest is refused by name."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, i1, i32

import tileiras
from tests.bytecode import frontend_ops
from tests.conversion.test_memory_order import semantics
from tests.interp.build import ELEMENTS, TOKEN, Kernel, pointer, tile
from tileiras.bytecode import SUPPORTED_VERSIONS, read, write
from tileiras.dialects.cuda_tile import attrs, ops, types
from tileiras.errors import BytecodeError
from tileiras.sim import simulate


def reducing(inbounds: bool | None) -> Kernel:
    """Adds 128 numbers to an array of 1024 through a view, in its second tile."""
    k = Kernel(pointer("f32"), pointer("f32"))
    view_type = types.TensorViewType(ELEMENTS["f32"], (None,), (1,))
    view = k.add(ops.MakeTensorView.make([k.args[0], [k.constant("i64", 250)], []], [view_type]))
    view = k.add(ops.MakePartitionView.make([view], [types.PartitionViewType((128,), view_type, (0,))]))
    flags = {} if inbounds is None else {"inbounds": DenseArrayBase.from_list(i1, [inbounds])}
    k.add(ops.AtomicRedViewTko.make([view, [k.constant("i32", 1)], k.load(k.args[1], "f32", (128,)), None], [TOKEN], {
        **semantics("relaxed", "device"), "mode": attrs.AtomicRMWModeAttr("addf"), **flags}))
    return k


def module(k: Kernel, hints: dict[str, int] | None = None) -> Any:
    found: Any = k.module()
    if hints is not None:
        entry = next(op for op in found.walk() if op.name == "cuda_tile.entry")
        entry.properties["optimization_hints"] = attrs.OptimizationHintsAttr(DictionaryAttr({
            "sm_90": DictionaryAttr({name: IntegerAttr(value, i32) for name, value in hints.items()})}))
    return found


def test_it_is_read_and_written_but_not_announced() -> None:
    assert "13.5" not in [str(v) for v in SUPPORTED_VERSIONS]
    data = write(module(reducing(None)), "13.5")
    assert data[8:12] == bytes([13, 5, 0, 0])
    assert write(read(data), "13.5") == data


@pytest.mark.parametrize("hints", [None, {"occupancy": 8}])
def test_hints_of_entries(hints: dict[str, int] | None) -> None:
    """They always stand in the file; empty ones are none."""
    k = reducing(None)
    back = read(write(module(k, hints), "13.5"))
    entry = next(op for op in back.walk() if op.name == "cuda_tile.entry")
    assert ("optimization_hints" in entry.properties) == (hints is not None)
    c = tileiras.compile(write(back, "13.5"), gpu_name="sm_90")
    assert (".maxnreg" in c.ptx) == (hints is not None)


@pytest.mark.parametrize("opt_level", [0, 3])
def test_promises_on_reductions(opt_level: int) -> None:
    """`inbounds` spares the bounds checks that the array's end needs; without it nothing is added past the end."""
    checked, spared = (tileiras.compile(write(module(reducing(flag)), "13.5"), gpu_name="sm_80", opt_level=opt_level).ptx
                       for flag in (False, True))
    assert "@%p" in checked and "@%p" not in spared
    x, y = np.zeros(256, np.float32), np.arange(128, dtype=np.float32)
    simulate(checked, args=[x, y])
    assert x.tolist() == [0.0] * 128 + y[:122].tolist() + [0.0] * 6
    simulate(spared, args=[x, y])
    assert x[128:].tolist() == (2 * y[:122]).tolist() + y[122:].tolist()


def test_older_versions_cannot_promise() -> None:
    with pytest.raises(BytecodeError, match=r"'inbounds' requires bytecode version 13\.5"):
        write(module(reducing(True)), "13.4")
    assert write(module(reducing(False)), "13.4")


def test_external_kernels_and_attributes_of_arguments_are_refused() -> None:
    data = write(module(reducing(None)), "13.5")
    at = data.index(bytes([2, 1, 11, 0, 6, 0]))     # a kernel, debug run 1, no hints, no attributes
    with pytest.raises(BytecodeError, match="cannot be both kernel and external"):
        read(data[:at] + bytes([6]) + data[at + 1:])
    with pytest.raises(BytecodeError, match="function 'kernel'"):
        read(data[:at + 4] + bytes([3, 1]) + data[at + 6:])


@pytest.mark.parametrize("present", [False, True])
def test_every_op_of_the_frontend(present: bool) -> None:
    """What the frontend's encoders write at 13.5 is read, op for op, and written back."""
    pytest.importorskip("cuda.tile._bytecode")
    if not hasattr(frontend_ops.version_of("13.4").__class__, "V_13_5"):
        pytest.skip("this frontend has no 13.5")
    writer = frontend_ops.Writer("13.5", present)
    data = writer.write()
    found = read(data)
    entry: Any = next(op for op in found.walk() if op.name == "cuda_tile.entry")
    names = [type(op).__name__ for op in entry.body.block.ops]
    assert {"MultimemLoadReduceViewTko", "MultimemReduceViewTko", "MultimemStoreViewTko"} <= set(names)
    assert len(names) == len(writer.written) + 1        # and a return
    assert read(write(found, "13.5")).is_structurally_equivalent(found)


@pytest.mark.parametrize("op", [ops.MultimemLoadReduceViewTko, ops.MultimemReduceViewTko, ops.MultimemStoreViewTko])
def test_multimem_needs_pointers_that_no_file_can_hold(op: Any) -> None:
    k = Kernel(pointer("f32"), pointer("f32"))
    view_type = types.TensorViewType(ELEMENTS["f32"], (1024,), (1,))
    view = k.add(ops.MakeTensorView.make([k.args[0], [], []], [view_type]))
    view = k.add(ops.MakePartitionView.make([view], [types.PartitionViewType((128,), view_type, (0,))]))
    zero, x = k.constant("i32", 0), k.load(k.args[1], "f32", (128,))
    reads = op is ops.MultimemLoadReduceViewTko
    reduction = {} if op is ops.MultimemStoreViewTko else {"reduction": attrs.MultimemReductionAttr("add")}
    k.add(op.make([view, *([] if reads else [x]), [zero], None], [*([tile("f32", 128)] if reads else []), TOKEN],
                  {**semantics("relaxed", "sys"), **reduction}))
    with pytest.raises(tileiras.TileirasError, match="expected a multicast pointer, but got none"):
        tileiras.compile(write(module(k), "13.5"), gpu_name="sm_90")
