"""Kernels of asynchronous copies and barriers, written as a body with its shared variables."""
from __future__ import annotations

from tileiras.sim import simulate


def kernel(body: str, shared: str = "", pointers: int = 2, threads: int = 32, cluster: int = 1, target: str = "sm_100a") -> str:
    """A kernel with parameters g0, g1, ... loaded into %g0, %g1, ...; %t is the thread, %w its warp, %rank its CTA's rank."""
    params = ", ".join(f".param .u64 g{i}" for i in range(pointers))
    loads = " ".join(f"ld.param.u64 %g{i}, [g{i}];" for i in range(pointers))
    return "\n".join([
        ".version 8.7", f".target {target}", ".address_size 64", f".visible .entry k({params})", f".reqntid {threads}",
        f".reqnctapercluster {cluster}" if cluster > 1 else "", "{",
        ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .b64 %g<8>; .reg .b32 %t, %w, %rank, %lane;",
        ".reg .f32 %f<8>;", shared, loads, "mov.u32 %t, %tid.x;", "shr.u32 %w, %t, 5;", "and.b32 %lane, %t, 31;",
        "mov.u32 %rank, %cluster_ctarank;", body, "ret;", "}", ""])


def run(body: str, args: list, shared: str = "", threads: int = 32, cluster: int = 1, target: str = "sm_100a", grid=None,
        **options):
    """Simulate; returns the report."""
    text = kernel(body, shared, len(args), threads, cluster, target)
    return simulate(text, args=args, grid=(cluster, 1, 1) if grid is None else grid, **options)
