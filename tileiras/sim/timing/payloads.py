"""What did the lanes of a warp touch together? Sectors of global memory and passes of shared memory and L1, from addresses.

Shared memory and L1 have 32 banks of four bytes. A warp's access of 4, 8 or 16 bytes a lane goes in groups of 32, 16 or 8 lanes,
and a group takes as many passes as its busiest bank has different words; atomics on one word come one after the other.
"""
from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from tileiras.sim.timing.stream import SECTOR_BYTES, AsyncGroup, GlobalAccess, Mma, Payload, SharedAccess, TensorAccess
from tileiras.sim.timing.touches import ELSEWHERE, GLOBAL, Form

BANKS, WORD = 32, 4
_RANK = 24                      # a shared address carries its CTA's rank from this bit on
_NUMBER = re.compile(r"(\d+);?\s*$")
_COPY_BYTES = {"128x256b": 4096, "4x256b": 128, "128x128b": 2048, "64x128b": 1024, "32x128b": 512}
_HGMMA = re.compile(r"[HIQB]GMMA\.(?:SP\.)?(\d+)x(\d+)x(\d+)")
_TENSOR_COLUMNS = re.compile(r"\.x(\d+)\b")
_SHAPE_COLUMNS = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}


def accesses(space: int, form: Form, warps: np.ndarray, lanes: np.ndarray, address: np.ndarray, shared: np.ndarray | None,
             reads: np.ndarray | None, ranks: np.ndarray) -> list[Payload]:
    """Payloads of many executions of one instruction at once: for each value of `warps` (0, 1, ... ascending, a number an
    execution and warp) one. `lanes`: 0 to 31; `ranks`: of each execution's own CTA."""
    count = int(warps[-1]) + 1
    lanes_each = np.bincount(warps, minlength=count)
    amounts = (lanes_each * form.width).tolist()
    if space == ELSEWHERE:
        return [None] * count
    if space == GLOBAL:
        passes = _passes(warps, lanes, shared, form, count) if shared is not None else [0] * count
        if reads is not None:
            chosen_warps, chosen = warps[reads], address[reads]
            amounts = (np.bincount(chosen_warps, minlength=count) * form.width).tolist()
        else:
            chosen_warps, chosen = warps, address
        sectors = _sectors(chosen_warps, chosen, count)
        if form.to_shared:
            waves = [0] * count
        else:
            waves = _most(warps, address, form, count) if form.atomic else _passes(warps, lanes, address, form, count)
        return [GlobalAccess(s, a, form.is_store, form.atomic, form.to_shared, p, w)
                for s, a, p, w in zip(sectors, amounts, passes, waves)]
    passes = _passes(warps, lanes, address, form, count)
    first = np.searchsorted(warps, np.arange(count))
    owner = (address[first] >> np.uint64(_RANK)).astype(np.int64)
    return [SharedAccess(p, a, form.is_store, form.atomic, None if o == r else int(o))
            for p, a, o, r in zip(passes, amounts, owner.tolist(), ranks.tolist())]


def _sectors(warps: np.ndarray, address: np.ndarray, count: int) -> list[tuple[int, ...]]:
    """The different sectors of every execution."""
    sector = (address // np.uint64(SECTOR_BYTES)).astype(np.int64)          # an aligned access lies in one
    order = np.lexsort((sector, warps))
    w, s = warps[order], sector[order]
    keep = np.ones(len(w), bool)
    keep[1:] = (w[1:] != w[:-1]) | (s[1:] != s[:-1])
    w, s = w[keep], s[keep].tolist()
    cuts = np.searchsorted(w, np.arange(count + 1)).tolist()
    return [tuple(s[a:b]) for a, b in pairwise(cuts)]


def _most(warps: np.ndarray, address: np.ndarray, form: Form, count: int) -> list[int]:
    """The most lanes of every execution that access one place."""
    place = (address // np.uint64(max(form.width, 1))).astype(np.int64)
    order = np.lexsort((place, warps))
    w, at = warps[order], place[order]
    starts = np.flatnonzero(np.concatenate([[True], (w[1:] != w[:-1]) | (at[1:] != at[:-1])]))
    most = np.zeros(count, np.int64)
    np.maximum.at(most, w[starts], np.diff(np.append(starts, len(w))))
    return most.tolist()


def _passes(warps: np.ndarray, lanes: np.ndarray, address: np.ndarray, form: Form, count: int) -> list[int]:
    """Passes of every execution."""
    words = max(form.width // WORD, 1)
    group = warps * 8 + lanes // (32 // min(words, 8))
    base = (address & np.uint64((1 << _RANK) - 1)).astype(np.int64) // WORD
    if words > 1:
        group, base = np.repeat(group, words), (base[:, None] + np.arange(words)).reshape(-1)
    if not form.atomic:
        order = np.lexsort((base, group))
        group, base = group[order], base[order]
        keep = np.ones(len(group), bool)
        keep[1:] = (group[1:] != group[:-1]) | (base[1:] != base[:-1])
        group, base = group[keep], base[keep]
    busy = np.bincount(group * BANKS + base % BANKS, minlength=8 * count * BANKS).reshape(count, 8, BANKS)
    return busy.max(axis=2).sum(axis=1).tolist()


def of_text(opcode: str, base: str, operands: tuple[str, ...], operation: str, line: str) -> Payload:
    """What an instruction's text and that of its PTX line say of its executions, without a run; None: nothing."""
    if base == "LDGDEPBAR":
        return AsyncGroup("cp.async", "commit")
    if base == "UTMACMDFLUSH":
        return AsyncGroup("bulk", "commit")
    if base == "DEPBAR" and operation.startswith(("cp.async.wait", "cp.async.bulk.wait")):
        found = _NUMBER.search(line)
        n = int(found[1]) if found and "wait_all" not in operation else 0
        family = "bulk" if "bulk" in operation else "cp.async"
        return AsyncGroup(family, "wait", n, read=".read" in operation)
    if base == "WARPGROUP" and "DEPBAR" in opcode:
        return AsyncGroup("wgmma", "wait", int(operands[-1], 16) if operands else 0)
    if found := _HGMMA.match(opcode):
        m, n, k = (int(x) for x in found.groups())
        sparse = ".SP" in opcode
        bits = 256 // k * (2 if sparse else 1)
        first = operands[1] if len(operands) > 1 else ""
        return Mma("wgmma", (m, n, k), bits, "shared" if first.startswith("gdesc") else "registers", "shared", 1, sparse,
                   {16: "f16", 32: "tf32", 8: "i8" if base == "IGMMA" else "f8", 1: "b1"}.get(bits, ""))
    if base in ("LDTM", "STTM"):
        found = _TENSOR_COLUMNS.search(opcode)
        times = int(found[1]) if found else 1
        shape = next((c for s, c in _SHAPE_COLUMNS.items() if s in operation), 1)
        return TensorAccess("ld" if base == "LDTM" else "st", times * shape)
    if base == "UTCCP":
        return TensorAccess("cp", bytes=next((b for s, b in _COPY_BYTES.items() if s in operation), 0),
                            ctas=2 if "cta_group::2" in operation else 1)
    return None
