"""What does a kernel's machine code say? Instructions with control fields, basic blocks, and how control flows.

nvdisasm gives opcodes and operands, the cubin's code section gives the control fields: in an instruction's 128 bits,
105-108 stall cycles, 109 yield, 110-112 the scoreboard set at write-back, 113-115 the one set when operands are read
(7: none), 116-121 the scoreboards waited for, 122-125 reuse of operands.
"""
from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass, field

from tileiras.codegen.toolchain import find_tool
from tileiras.sim.timing import line_table
from tileiras.sim.timing.cubin import Cubin
from tileiras.sim.timing.errors import NoDisassembler, NotTimed
from tileiras.sim.timing.stream import Instruction

WIDTH = 16                              # bytes an instruction
SECONDS = 120                           # that nvdisasm may take
_NONE = 7                               # no scoreboard
_STORES = frozenset("""ST STG STS STL STSM RED REDG REDAS BAR BRA BRX JMP JMX CALL RET EXIT BSSY BSYNC BREAK WARPSYNC
    NANOSLEEP MEMBAR FENCE ERRBAR CCTL CCTLL DEPBAR LDGDEPBAR LDGSTS UTMALDG UTMASTG UTMAREDG UTMACMDFLUSH UTMACCTL UTMAPF
    UBLKCP UBLKRED UBLKPF UTCBAR STTM UTCCP WARPGROUP WARPGROUPSET USETMAXREG NOP BPT KILL YIELD ARRIVES UCGABAR_ARV
    UCGABAR_WAIT ACQBULK PREEXIT CCTLT UVIRTCOUNT STAS ENDCOLLECTIVE""".split())
_MATRIX_RESULT = {"F32": 4, "F16": 2, "S32": 4}
_REGISTER = re.compile(r"\b(UR|R|UP|P|B)(\d+)(\.64|\.128)?\b")
_BYTES = re.compile(r"\.(32|64|128|256)\b")
_DIVERGED = "BRA.DIV"               # to the slow way of a shuffle; taken only by warps whose lanes have gone different ways


@dataclass(frozen=True, slots=True)
class Branch:
    """What an instruction does to control: `kind` is "jump", "call", "return", "exit", "indirect" (by a table in the second
    constant bank) or "trap". `target`: an address. `conditions`: predicates that must all hold; empty: always."""
    kind: str
    target: int = -1
    conditions: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class SassBlock:
    """A basic block. `taken` and `falls` are block numbers (-1: none); `branch` how it ends."""
    index: int
    instructions: list[Instruction]
    branch: Branch | None = None
    taken: int = -1
    falls: int = -1
    others: tuple[int, ...] = ()        # further targets of an indirect branch
    function: int = 0                   # block number of its function's entry
    predecessors: list[int] = field(default_factory=list)

    @property
    def successors(self) -> list[int]:
        """Within the function: after a call, where it comes back."""
        call = self.branch is not None and self.branch.kind == "call"
        out = [] if self.taken < 0 or call else [self.taken]
        if self.falls >= 0 and self.falls not in out:
            out.append(self.falls)
        return out + [o for o in self.others if o not in out]


@dataclass(slots=True, eq=False)
class Code:
    """A kernel's code section: instructions in the order of addresses, blocks with entry 0, subroutine entries."""
    kernel: str
    sm: int
    instructions: list[Instruction]
    blocks: list[SassBlock]
    entries: dict[int, str]             # block number -> function


def disassemble(data: bytes) -> list[dict]:
    """nvdisasm's listing of a cubin, a dictionary a code section. Raises NoDisassembler, NotTimed."""
    tool = find_tool("nvdisasm")
    if tool is None:
        raise NoDisassembler()
    handle, path = tempfile.mkstemp(suffix=".cubin")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        done = subprocess.run([tool, "-json", path], capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NotTimed(f"nvdisasm took more than {SECONDS} seconds") from error
    finally:
        os.unlink(path)
    if done.returncode:
        raise NotTimed(f"nvdisasm: {done.stderr.decode('utf-8', 'replace').strip()[:400]}")
    header, sections = json.loads(done.stdout)
    version = header["SM"]["version"]
    for section in sections:
        section["sm"] = version["major"] * 10 + version["minor"]
    return sections


def read(data: bytes, kernel: str | None = None) -> Code:
    """The machine code of a cubin's kernel (or its only one). Raises NoDisassembler, NotTimed."""
    cubin = Cubin(data)
    tables = line_table.read(cubin)
    sections = {s["function-name"]: s for s in disassemble(data)}
    if kernel is None:
        if len(sections) != 1:
            raise NotTimed(f"the cubin has {len(sections)} functions; name one of: {', '.join(sections)}")
        kernel, = sections
    if kernel is None or kernel not in sections:
        raise NotTimed(f"no kernel {kernel} in the cubin; there are: {', '.join(sections) or 'none'}")
    section = f".text.{kernel}"
    table = tables.get(section)
    if table is None:
        raise NotTimed(f"the cubin has no line table for {kernel}: compile with --lineinfo (ptxas -lineinfo)")
    listing = sections[kernel]
    names = cubin.functions_in(section)
    jumps = cubin.contents(f".nv.constant2.{kernel}")
    jumps = jumps[:len(jumps) // 4 * 4]
    return _code(kernel, listing["sm"], listing["sass-instructions"], cubin.contents(section), table, names,
                 {a for a, in struct.iter_unpack("<I", jumps) if a % WIDTH == 0})


def _code(kernel: str, sm: int, listing: list[dict], words: bytes, table: line_table.LineTable, names: dict[int, str],
          jumps: set[int]) -> Code:
    if len(words) < WIDTH * len(listing):
        raise NotTimed(f"{len(listing)} instructions in {len(words)} bytes")
    starts = {name: address for address, name in names.items()}
    instructions: list[Instruction] = []
    branches: dict[int, Branch] = {}
    function = kernel
    for index, entry in enumerate(listing):
        address = WIDTH * index
        function = names.get(address, function)
        opcode = entry["opcode"]
        operands = _split(entry.get("operands") or "")
        guard = entry.get("predicate", "").removeprefix("@") or None
        instructions.append(_instruction(index, opcode, operands, guard, words, table.line(address), function))
        branch = _branch(opcode, operands, guard, address, starts)
        if branch is not None:
            branches[index] = branch
    return Code(kernel, sm, instructions, *_blocks(instructions, branches, names, kernel, jumps))


def _instruction(index: int, opcode: str, operands: tuple[str, ...], guard: str | None, words: bytes, line: int,
                 function: str) -> Instruction:
    high = int.from_bytes(words[WIDTH * index + 8:WIDTH * index + WIDTH], "little") >> 41
    base = opcode.split(".")[0]
    dst, src = _registers(base, opcode, operands)
    return Instruction(
        index, WIDTH * index, opcode, base, guard, dst, src, operands, stall=high & 15, yield_flag=high >> 4 & 1,
        write_sb=_scoreboard(high >> 5), read_sb=_scoreboard(high >> 8), wait_mask=high >> 11 & 63, reuse=high >> 17 & 15,
        ptx_line=line, function=function)


def _scoreboard(bits: int) -> int | None:
    return None if bits & 7 == _NONE else bits & 7


def _split(text: str) -> tuple[str, ...]:
    """Operands at the commas outside brackets."""
    if not text:
        return ()
    out, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "[{(":
            depth += 1
        elif c in "]})":
            depth -= 1
        elif c == "," and not depth:
            out.append(text[start:i].strip())
            start = i + 1
    out.append(text[start:].strip())
    return tuple(out)


def _registers(base: str, opcode: str, operands: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(written, read). Vectors of loads, stores and wide results are spelled out; of matrix operands the first is named."""
    dst: list[str] = []
    src: list[str] = []
    writes = base not in _STORES
    for k, text in enumerate(operands):
        found = _REGISTER.findall(text)
        is_result = writes and "[" not in text and (k == 0 or (not any(not d.startswith(("P", "UP")) for d in dst)
                                                               and text.startswith(("P", "UP", "R", "UR")) and
                                                               all(o.startswith(("P", "UP")) for o in operands[:k])))
        for kind, number, wide in found:
            count = 2 if wide == ".64" else 4 if wide == ".128" else 1
            if kind in ("R", "UR") and "[" not in text and count == 1:
                count = _width(base, opcode, is_result)
            names = [f"{kind}{int(number) + i}" for i in range(count)]
            (dst if is_result else src).extend(names)
    return tuple(dst), tuple(src)


def _width(base: str, opcode: str, is_result: bool) -> int:
    """How many registers an operand without a suffix of its own stands for."""
    if base in ("LDG", "LD", "LDS", "LDL", "LDC", "LDCU", "ULDC", "CS2R", "STG", "ST", "STS", "STL"):
        found = _BYTES.search(opcode)
        return int(found[1]) // 32 if found else 2 if base == "CS2R" else 1
    if not is_result:
        return 2 if base in ("DFMA", "DADD", "DMUL", "DSETP") else 1
    if base in ("DFMA", "DADD", "DMUL") or ".WIDE" in opcode:
        return 2
    if base in ("HMMA", "IMMA", "QMMA", "OMMA"):
        return 2 if ".F16" in opcode and ".F32" not in opcode else 4
    if base == "DMMA":
        return 4
    return 1


def _branch(opcode: str, operands: tuple[str, ...], guard: str | None, address: int, starts: dict[str, int]) -> Branch | None:
    base = opcode.split(".")[0]
    conditions = () if guard in (None, "PT", "UPT") else (guard,)
    if base == "EXIT":
        return Branch("exit", conditions=conditions + tuple(o for o in operands if o.lstrip("!") not in ("PT", "UPT")))
    if base in ("RET", "JMX", "BRX"):
        kind = "return" if base == "RET" else "indirect"
        return Branch(kind, conditions=conditions)
    if base in ("BPT", "KILL") and "TRAP" in opcode:
        return Branch("trap", conditions=conditions)
    if base not in ("BRA", "JMP", "CALL") or opcode.startswith(_DIVERGED):
        return None
    conditions += tuple(o for o in operands[:-1] if re.fullmatch(r"!?U?P\d", o))
    name = operands[-1] if operands else ""
    if name in starts:
        target = starts[name]
    elif re.fullmatch(r"-?0x[0-9a-f]+", name):
        target = int(name, 16)
    elif base == "CALL":
        return None                                     # of what the cubin doesn't hold (vprintf): it comes back
    else:
        return Branch("indirect", conditions=conditions)
    if base == "CALL" and target in starts.values():
        return Branch("call", target, conditions)
    return Branch("jump", target, conditions)           # CALL.REL.NOINC to a label is how ptxas leaves some loops


def _blocks(instructions: list[Instruction], branches: dict[int, Branch], names: dict[int, str],
            kernel: str, jumps: set[int]) -> tuple[list[SassBlock], dict[int, str]]:
    last = len(instructions) * WIDTH
    leaders = {0} | {a for a in names if a < last}
    for index, branch in branches.items():
        if 0 <= branch.target < last:
            leaders.add(branch.target)
        leaders.add(WIDTH * (index + 1))
    if any(b.kind == "indirect" for b in branches.values()):
        leaders |= jumps
    order = sorted(a for a in leaders if 0 <= a < last)
    number = {address: i for i, address in enumerate(order)}
    indirect = tuple(sorted(number[a] for a in jumps if a in number))
    blocks = []
    for i, address in enumerate(order):
        end = order[i + 1] if i + 1 < len(order) else last
        blocks.append(SassBlock(i, instructions[address // WIDTH:end // WIDTH]))
    for i, block in enumerate(blocks):
        tail = block.instructions[-1]
        branch = block.branch = branches.get(tail.index)
        after = i + 1 if i + 1 < len(blocks) else -1
        block.falls = after
        if branch is not None:
            if branch.kind in ("jump", "call"):
                block.taken = number.get(branch.target, -1)
            if branch.kind == "indirect":
                block.others = indirect
            if not branch.conditions and branch.kind != "call":
                block.falls = -1
            elif branch.kind == "trap":
                block.falls = after
        elif after >= 0 and blocks[after].instructions[0].address in names:
            block.falls = -1
    entries = {number[a]: n for a, n in names.items() if a in number}
    entries.setdefault(0, kernel)
    for entry in sorted(entries):
        todo = [entry]
        seen = {entry}
        while todo:
            at = todo.pop()
            blocks[at].function = entry
            for to in blocks[at].successors:
                blocks[to].predecessors.append(at)
                if to not in seen:
                    seen.add(to)
                    todo.append(to)
    return blocks, entries


def dominators(blocks: list[SassBlock], entry: int) -> dict[int, int]:
    """The immediate dominator of every block that `entry` reaches (itself for the entry), by Cooper, Harvey and Kennedy."""
    return immediate_dominators({b.index: b.successors for b in blocks}, entry)


def immediate_dominators(successors: dict[int, list[int]], entry: int) -> dict[int, int]:
    """The same for any graph."""
    order: list[int] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        at, rest = stack[-1]
        for to in rest:
            if to not in seen:
                seen.add(to)
                stack.append((to, iter(successors[to])))
                break
        else:
            order.append(at)
            stack.pop()
    position = {b: i for i, b in enumerate(order)}
    before: dict[int, list[int]] = {b: [] for b in order}
    for b in order:
        for to in successors[b]:
            before[to].append(b)
    parent = {entry: entry}
    changed = True
    while changed:
        changed = False
        for b in reversed(order):
            if b == entry:
                continue
            new = -1
            for p in before[b]:
                if p in parent:
                    if new < 0:
                        new = p
                        continue
                    one, two = p, new
                    while one != two:
                        while position[one] < position[two]:
                            one = parent[one]
                        while position[two] < position[one]:
                            two = parent[two]
                    new = one
            if parent.get(b) != new:
                parent[b], changed = new, True
    return parent
