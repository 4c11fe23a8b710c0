"""Cubins beside the original's of the same kernels: what does a driver see that differs? `python -m bench.beside [CASE ...]`

Compared are the facts that a driver or a launch depends on: sections, what `.nv.info` says of a kernel, compatibility marks,
what ptxas notes of its options, the entry's directives and parameters, the tables of the host object, and, of code that a
launch sets up, which kinds of asynchronous instructions and fences there are. EXPLAINED has a reason for every difference
that may be; any other is printed as unexplained, and the exit code is 1.
"""
from __future__ import annotations

import argparse
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.host.hostcode import HostCode, read_elf
from tests.kernels import runner
from tests.sim import reference
from tileiras.sim.timing.cubin import Cubin

CASES = ("vector_add_float32", "reduce_softmax_ragged", "matmul_float16_float32", "gemm_f16_f32_128x256x64", "attention_d64_f16",
         "gemm_i8_i32_128x64x64", "memory_4d_padding", "atomic_add_float16", "layer_norm_f16_ragged", "moe_expert_gemm_bf16",
         "scan_cumsum_float32", "histogram_32_private_f32")

ATTRIBUTES = {
    0x0A: "PARAM_CBANK", 0x10: "REQNTID", 0x11: "FRAME_SIZE", 0x12: "MIN_STACK_SIZE", 0x17: "KPARAM_INFO",
    0x19: "CBANK_PARAM_SIZE", 0x1B: "MAXREG_COUNT", 0x1C: "EXIT_INSTR_OFFSETS", 0x1D: "S2RCTAID_INSTR_OFFSETS",
    0x1E: "CRS_STACK_SIZE", 0x28: "COOP_GROUP_INSTR_OFFSETS", 0x29: "COOP_GROUP_MASK_REGIDS", 0x2F: "REGCOUNT",
    0x31: "INT_WARP_WIDE_INSTR_OFFSETS", 0x2E: "ATOMF16_EMUL_INSTR_REG_MAP", 0x36: "SW_WAR", 0x37: "CUDA_API_VERSION",
    0x38: "NUM_MBARRIERS", 0x39: "MBARRIER_INSTR_OFFSETS", 0x3D: "CTA_PER_CLUSTER", 0x45: "KPARAM_INFO_V2",
    0x4C: "NUM_BARRIERS", 0x54: "REG_RECONFIG", 0x55: "ANNOTATIONS", 0x64: "PER_CTA_MEMORY", 0x66: "LANGUAGE"}
"""Attributes of `.nv.info` by number; others are shown as numbers."""
WITH_SIZE = 4                   # the form of an attribute that has its size before its contents
COMPAT_FEATURES = (0x02, 0x03)  # of `.nv.compat`: which of the newer instructions are used
PARAMETER_LISTS = ("KPARAM_INFO", "KPARAM_INFO_V2")

KINDS = ("cp.async", "cp.reduce", "mbarrier", "fence", "wgmma", "tcgen05", "setmaxnreg", "tensormap", "prefetch.tensormap",
         "griddepcontrol", "barrier", "bar", "elect")
"""Families of instructions that are shown by their kinds."""

EXPLAINED: tuple[tuple[str, str], ...] = (
    (r"info ((EXIT|INT_WARP_WIDE|COOP_GROUP|MBARRIER|S2RCTAID)\w*|ATOMF16_EMUL_INSTR_REG_MAP|ANNOTATIONS|CRS_STACK_SIZE)",
     "places in the code, and whether it diverges"),
    (r"info (REGCOUNT|MAXREG_COUNT|FRAME_SIZE|MIN_STACK_SIZE|NUM_BARRIERS)", "registers and barriers are each compiler's choice"),
    (r"info REQNTID|directive (reqntid|maxnreg)", "how many warps there are, and how many registers they may have, is each "
     "compiler's choice"),
    (r"info NUM_MBARRIERS", "as many as rings have stages"),
    (r"info REG_RECONFIG", "whether warps hand registers over (setmaxnreg)"),
    (r"info (PARAM_CBANK|CBANK_PARAM_SIZE)|hidden maps",
     "the original has a map for every copy, equal ones and stores included; here maps are shared, and other copies have none"),
    (r"section \.nv\.shared\.K", "whether the kernel needs shared memory"),
    (r"section \.(rela?|text|nv\.constant\d?|nv\.global|nv\.merc).*", "relocations and constants that code makes necessary"),
    (r"section \.debug_str", "names of callers in line tables: whether code of a called function was left"),
    (r"compat 0x[23]", "which of the newer instructions are used"),
    (r"ptx version", "LLVM prints PTX 9.0, which `.language` needs as 9.2; the original prints its own"),
    (r"kind cp\.(reduce\.)?async\.bulk\.(tensor\.\dd\.global|commit_group|wait_group).*",
     "tiles are stored by the threads that hold them"),
    (r"kind cp\.async\.bulk\.tensor\.\dd\.shared.*", "the original gives a cache hint of 0; boxes and ranks are chosen"),
    (r"kind fence\.proxy\.async\.shared::cta",
     "before bulk stores, and where threads fill what wgmma reads: by cp.async or by hand"),
    (r"kind (elect\.sync|bar\.warp\.sync|barrier(\.cta)?\.sync.*|bar\.sync)",
     "how one thread is chosen, and the names of one barrier"),
    (r"kind mbarrier\.(try_wait|arrive|init|expect).*",
     "spelled with or without ::cta; kernels without the engine's copies have none"),
    (r"kind fence\.mbarrier_init\.release\.cluster", "goes with mbarriers"),
    (r"kind prefetch\.tensormap", "here a kernel begins by fetching its maps"),
    (r"kind setmaxnreg.*", "whether agents hand registers over"),
    (r"kind cp\.async\.(c[ag]|commit|wait).*", "which loads go ahead by cp.async, and past which cache"),
    (r"kind (wgmma|tcgen05|mma).*", "which matrix instruction a product is made of"),
    (r"kind fence\.(acq_rel|sc)\..*", "orders of atomics: fences around relaxed ones here"),
    (r"kind (tensormap|fence\.proxy\.tensormap).*", "maps built by the kernel: here none"),
    (r"info 0x(34|41|4a|4f|51)|compat 0x[5b]", "tensor memory: not used here; and indirect branches"),
    (r"hidden pointers|info PER_CTA_MEMORY|directive minperctamemory", "maps built by the kernel: here none"),
    (r"host relocations", "LLVM reaches the vector and its copy by fewer of the original's relocations"),
)
"""What may differ (a regular expression over the fact's whole name), and why."""


@dataclass(frozen=True)
class Difference:
    """A fact that both cubins have in their own way."""
    fact: str
    ours: object
    original: object

    @property
    def reason(self) -> str:
        """Why it may be; "" where nothing explains it."""
        return next((why for pattern, why in EXPLAINED if why and re.fullmatch(pattern, self.fact)), "")


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, contents) of the attributes in a section like `.nv.info`."""
    at = 0
    while at + 4 <= len(data):
        form, number, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == WITH_SIZE:
            yield number, data[at:at + value]
            at += value
        else:
            yield number, struct.pack("<H", value)


def facts(cubin: bytes, kernel: str, ptx: str) -> dict[str, object]:
    """What a driver sees of a kernel, by name."""
    elf = Cubin(cubin)
    out: dict[str, object] = {}
    for section in elf.sections:
        name = re.sub(r"(debug_txt)\.[0-9a-f]+", r"\1", section.name.replace(kernel, "K"))
        out[f"section {name}"] = True
    lists: dict[str, list[str]] = {}
    for number, data in attributes(elf.contents(f".nv.info.{kernel}")):
        lists.setdefault(ATTRIBUTES.get(number, hex(number)), []).append(data.hex())
    out["parameters"] = sorted(_parameter(bytes.fromhex(text), name) for name in PARAMETER_LISTS for text in lists.pop(name, ()))
    out |= {f"info {name}": tuple(values) for name, values in lists.items()}
    out |= {f"info {ATTRIBUTES.get(number, hex(number))}": True for number, _ in attributes(elf.contents(".nv.info"))}
    for number, data in attributes(elf.contents(".nv.compat")):
        out[f"compat {number:#x}"] = data.hex()
    out["note tkinfo"] = _notes(elf.contents(".note.nv.tkinfo"))
    out["note cuinfo"] = elf.contents(".note.nv.cuinfo").hex()
    return out | _of_ptx(ptx, kernel) | _of_host(elf.contents(".nv.host"))


def _parameter(data: bytes, form: str) -> tuple[int, int, int]:
    """Ordinal, offset and size of a parameter."""
    if form == PARAMETER_LISTS[0]:
        _, ordinal, offset, packed = struct.unpack("<IHHI", data)
        return ordinal, offset, packed >> 18
    return struct.unpack_from("<4xHHH", data)


def _notes(data: bytes) -> tuple[str, ...]:
    """The words of a note: the tool, its version, its options, but for the report that ours asks for and the line tables that
    the original makes without an option."""
    words = (part.decode() for part in re.findall(rb"[ -~]{4,}", data))
    return tuple(re.sub(r"-v +|-lineinfo +", "", word) for word in words)


def _of_ptx(ptx: str, kernel: str) -> dict[str, object]:
    text = ptx[ptx.index(f".entry {kernel}"):]
    head, _, body = text.partition("\n{")
    signature, _, directives = head.partition("\n)")
    out: dict[str, object] = {"ptx version": re.findall(r"^\.version (.*)", ptx, re.M),
                              "ptx target": re.findall(r"^\.target (\w+)", ptx, re.M),
                              "global metadata": "___NV_TILE_LAUNCH_META_DATA___" in ptx,
                              "hidden maps": len(reference.HIDDEN_MAP.findall(signature)),
                              "hidden pointers": len(reference.HIDDEN_POINTER.findall(signature))}
    for name, value in re.findall(r"^\.(\w+)[ \t]*(.*)$", directives, re.M):
        out[f"directive {name}"] = value.strip()
    end = re.search(r"^\.(visible|func|entry)", body, re.M)
    return out | {f"kind {name}": True for name in _INSTRUCTION.findall(body[:end.start()] if end else body)}


_INSTRUCTION = re.compile(rf"(?:^|[;{{}}])\s*(?:@!?%\w+\s+)?((?:{'|'.join(map(re.escape, KINDS))})\b[.\w:]*)", re.M)


def _of_host(data: bytes) -> dict[str, object]:
    elf, code = read_elf(data), HostCode(data)
    table = code.table()
    return {"host vector": [word if word < 1 << 32 else "address" for word in table],
            "host rows": [(name, [word and "address" for word in row]) for name, row in code.rows()],
            "host machine": elf.machine, "host undefined": elf.undefined,
            "host relocations": elf.relocations,
            "host symbols": {symbol for symbol in elf.symbols if symbol[0].startswith("__CUDA_TILEIR")}}


def differences(case: str, gpu: str) -> list[Difference]:
    """Where a case's two cubins differ."""
    name = runner.case_of(case).name
    ours = runner.compile_case(case, gpu, lineinfo=True, version=runner.case_of(case).versions[0])
    original = reference.original_cubin(case, gpu)
    a, b = facts(ours.cubin, name, ours.ptx), facts(original, name, Cubin(original).ptx)
    return [Difference(key, a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.beside", description=__doc__)
    parser.add_argument("case", nargs="*", default=CASES)
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--all", action="store_true", help="also differences that have an explanation")
    given = parser.parse_args(argv)
    if reference.original() is None:
        raise SystemExit("the original isn't there: make bench, or TILEIRAS_ORIGINAL")
    unexplained = 0
    for case in given.case:
        for d in differences(case, given.gpu_name):
            unexplained += not d.reason
            if given.all or not d.reason:
                print(f"{case} | {d.fact} | {d.ours} | {d.original} | {d.reason or 'UNEXPLAINED'}")
    print(f"{len(given.case)} kernels, {unexplained} differences without an explanation")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
