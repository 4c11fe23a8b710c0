"""Instructions that a module's target or PTX version doesn't have are refused, and those that it has aren't."""
from __future__ import annotations

import pytest

from tests.sim.ptxkit import kernel
from tileiras.sim import InvalidInstruction, simulate
from tileiras.sim.ptx.targets import missing, parse_target

# (opcode, a target that has it, one that doesn't): as ptxas takes and refuses them
TARGETS = (
    ("cp.async.ca.shared.global", "sm_80", "sm_75"), ("cp.async.bulk.commit_group", "sm_90", "sm_89"),
    ("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes", "sm_100a", "sm_90a"),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes", "sm_100f", "sm_100"),
    ("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group", "sm_100a", "sm_90a"),
    ("mbarrier.init.shared.b64", "sm_80", "sm_75"), ("mbarrier.try_wait.parity.shared::cta.b64", "sm_90", "sm_80"),
    ("tensormap.replace.tile.rank.global.b1024.b32", "sm_90a", "sm_90"), ("wgmma.fence.sync.aligned", "sm_90a", "sm_100a"),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", "sm_103f", "sm_120a"),
    ("setmaxnreg.inc.sync.aligned.u32", "sm_120a", "sm_90"), ("fence.mbarrier_init.release.cluster", "sm_90", "sm_80"),
    ("fence.proxy.async", "sm_90", "sm_80"), ("fence.acq_rel.cluster", "sm_90", "sm_80"),
    ("barrier.cluster.arrive", "sm_90", "sm_89"), ("elect.sync", "sm_90", "sm_89"), ("griddepcontrol.wait", "sm_90", "sm_80"),
    ("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", "sm_100", "sm_90"),
    ("redux.sync.max.f32", "sm_100f", "sm_120a"), ("redux.sync.max.f32", "sm_100a", "sm_100"),
    ("redux.sync.add.u32", "sm_80", "sm_75"), ("ld.global.v8.b32", "sm_100", "sm_90a"), ("add.rn.bf16", "sm_90", "sm_80"),
    ("fma.rn.bf16", "sm_80", "sm_75"), ("cvt.rn.satfinite.e4m3x2.f32", "sm_89", "sm_80"), ("fma.rn.f32x2", "sm_120", "sm_90"),
    ("atom.global.v2.f32.add", "sm_90", "sm_80"), ("tanh.approx.bf16", "sm_90", "sm_80"), ("ex2.approx.f16", "sm_75", "sm_70"),
    ("min.xorsign.abs.f32", "sm_86", "sm_80"), ("min.f16", "sm_80", "sm_75"), ("red.global.add.noftz.bf16", "sm_90", "sm_80"),
    ("cvt.rs.satfinite.e4m3x4.f32", "sm_100a", "sm_120a"),
    ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", "sm_120a", "sm_120"),
)


@pytest.mark.parametrize(("opcode", "has", "lacks"), TARGETS)
def test_targets(opcode, has, lacks):
    parts = tuple(opcode.split("."))
    good, bad = parse_target(has), parse_target(lacks)
    assert good is not None and bad is not None
    assert missing(parts, good, 92) == ""
    assert lacks in missing(parts, bad, 92)


def test_versions():
    assert "PTX 8.0" in missing(("elect", "sync"), (90, ""), 78)
    assert missing(("elect", "sync"), (90, ""), 80) == ""


def test_a_kernel_with_an_instruction_of_another_target():
    text = kernel("setmaxnreg.inc.sync.aligned.u32 40;", [], [], 128, target="sm_100")
    with pytest.raises(InvalidInstruction, match="sm_100") as caught:
        simulate(text, block=128)
    assert caught.value.line == 18


def test_a_version_older_than_the_target():
    text = kernel("", [], [], 32, target="sm_120").replace(".version 9.0", ".version 8.6")
    with pytest.raises(InvalidInstruction, match=r"8\.7"):
        simulate(text)
