"""Executes llvm-dialect functions for one block of threads, all in step, with NumPy: what lowered tile ops compute.

Values are arrays with one row a thread (vectors: one column an element). Shared memory knows which bytes were written
by whom since the last barrier, so a missing barrier is an error here even when the values happen to be right.

    machine = Machine(num_threads=128, shared_bytes=4096)
    env = machine.run(entry_block, [array of shape (128, 8)])
    env[value]
"""
from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, VectorType
from xdsl.ir import Attribute, Block, SSAValue

from tileiras.dialects import llvm

FLOATS: dict[type, Any] = {Float16Type: np.float16, BFloat16Type: ml_dtypes.bfloat16, Float32Type: np.float32,
                           Float64Type: np.float64}
SHARED_START = 0x1000


def element(t: Attribute) -> Attribute:
    return t.element_type if isinstance(t, VectorType) else t


def dtype(t: Attribute) -> Any:
    t = element(t)
    if isinstance(t, IntegerType):
        width = t.width.data
        return np.bool_ if width == 1 else np.dtype(f"u{1 << max(0, (width - 1).bit_length() - 3)}")
    if isinstance(t, llvm.PtrType):
        return np.uint32 if t.space.data == llvm.SHARED else np.uint64
    return FLOATS[type(t)]


def bits(t: Attribute) -> int:
    t = element(t)
    return t.width.data if isinstance(t, IntegerType) else np.dtype(dtype(t)).itemsize * 8


def length(t: Attribute) -> int:
    return t.get_shape()[0] if isinstance(t, VectorType) else 0


def signed(x: np.ndarray) -> np.ndarray:
    return x.view(np.dtype(f"i{x.dtype.itemsize}"))


class Machine:
    def __init__(self, num_threads: int, shared_bytes: int) -> None:
        self.n = num_threads
        self.tid = np.arange(num_threads, dtype=np.uint32)
        self.shared = np.zeros(shared_bytes, np.uint8)
        self.written = np.full(shared_bytes, -1)            # by which thread, -1: never
        self.write_time = np.full(shared_bytes, -1)
        self.read_time = np.full(shared_bytes, -1)
        self.reader = np.full(shared_bytes, -1)
        self.time = 0
        self.counts: dict[str, int] = {}

    # --- driver

    def run(self, entry: Block, args: list[np.ndarray]) -> dict[SSAValue, Any]:
        env: dict[SSAValue, Any] = dict(zip(entry.args, args))
        block: Block | None = entry
        steps = 0
        while block is not None:
            after = None
            for op in list(block.ops):
                steps += 1
                assert steps < 2_000_000
                name = op.name.removeprefix("llvm.")
                if name in ("br", "cond_br"):
                    after = self.branch(op, env)
                    break
                if name == "return":
                    break
                with np.errstate(all="ignore"):
                    out = self.execute(name, op, [env[v] for v in op.operands])
                if len(op.results) > 1:
                    env.update(zip(op.results, out))
                elif op.results:
                    env[op.results[0]] = out
            block = after
        return env

    def branch(self, op: Any, env: dict[SSAValue, Any]) -> Block:
        if op.name == "llvm.br":
            target, values = op.successors[0], op.operands
        else:
            condition = env[op.operands[0]]
            assert condition.all() or not condition.any(), "a branch diverges"
            taken = 0 if condition.all() else 1
            target, values = op.successors[taken], op.then_args if taken == 0 else op.else_args
        new = [env[v] for v in values]
        for arg, v in zip(target.args, new):
            env[arg] = v
        return target

    # --- ops

    def execute(self, name: str, op: Any, x: list[Any]) -> Any:
        t: Any = op.results[0].type if op.results else None
        if name == "mlir.constant":
            pattern = op.properties["bits"].data
            e = element(t)
            kind = dtype(t)
            shape = (self.n, length(t)) if length(t) else (self.n,)
            if isinstance(e, IntegerType | llvm.PtrType):
                return np.full(shape, pattern, kind)
            raw = np.dtype(f"u{np.dtype(kind).itemsize}")
            return np.full(shape, pattern, raw).view(kind)
        if name == "mlir.poison":
            kind = dtype(t)
            shape = (self.n, length(t)) if length(t) else (self.n,)
            return np.full(shape, 0x5A, np.uint8).astype(kind)
        if name == "mlir.addressof":
            return np.full(self.n, SHARED_START, np.uint32)
        if name in ("add", "sub", "mul", "and", "or", "xor", "fadd", "fsub", "fmul"):
            f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
                 "xor": np.bitwise_xor, "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply}[name]
            return f(x[0], x[1]).astype(x[0].dtype)
        if name == "shl":
            return (x[0] << x[1]).astype(x[0].dtype)
        if name == "lshr":
            return x[0] >> x[1]
        if name in ("icmp", "fcmp"):
            p = op.properties["predicate"].data
            a, b = x
            if p[0] == "s":
                a, b = signed(a), signed(b)
            if p == "uno":
                return np.isnan(a) | np.isnan(b)
            return {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                    "ge": np.greater_equal}[p[-2:]](a, b)
        if name == "select":
            c = x[0]
            if c.ndim < x[1].ndim:
                c = c[:, None]
            return np.where(c, x[1], x[2])
        if name in ("zext", "trunc", "inttoptr", "ptrtoint"):
            return (x[0] & 1).astype(bool) if bits(t) == 1 else x[0].astype(dtype(t))
        if name == "sext":
            return signed(x[0]).astype(f"i{np.dtype(dtype(t)).itemsize}").view(dtype(t))
        if name in ("fpext", "fptrunc"):
            return x[0].astype(dtype(t))
        if name == "bitcast":
            raw = np.ascontiguousarray(x[0]).reshape(self.n, -1).view(np.uint8)
            out = raw.view(dtype(t))
            return out if length(t) else out.reshape(self.n)
        if name == "extractelement":
            return x[0][np.arange(self.n), x[1].astype(np.int64)]
        if name == "insertelement":
            out = x[1].copy()
            out[np.arange(self.n), x[2].astype(np.int64)] = x[0]
            return out
        if name == "shufflevector":
            both = np.concatenate(x, axis=1)
            return both[:, [max(0, m.data) for m in op.properties["mask"].data]]
        if name == "getelementptr":
            return (x[0].astype(np.int64) + x[1].astype(np.int64)).astype(dtype(t))
        if name == "extractvalue":
            return x[0][op.properties["position"].data]
        if name == "load":
            assert op.operands[0].type.space.data == llvm.SHARED
            return self.load(x[0], t, op.properties["alignment"].data)
        if name == "store":
            return self.store(x[1], x[0], op.properties["alignment"].data)
        if name == "call":
            return self.call(op.properties["callee"].data, x, t)
        if name == "nvvm.inst":
            row = op.row
            return self.call(f"llvm.nvvm.{row.intrinsic}", x, t) if row.intrinsic else self.asm(row.asm, x, t)
        raise AssertionError(f"llvm.{name} is unknown here")

    # --- memory

    def places(self, p: np.ndarray, size: int, align: int | None = None) -> np.ndarray:
        start = p.astype(np.int64) - SHARED_START
        assert (start % (size if align is None else align) == 0).all(), "misaligned"
        at = start[:, None] + np.arange(size)
        assert (at >= 0).all() and (at < len(self.shared)).all(), "out of bounds"
        return at

    def load(self, p: np.ndarray, t: Attribute, align: int, threads: np.ndarray | None = None) -> np.ndarray:
        size = bits(t) // 8 * max(1, length(t))
        assert align == size
        who = self.tid.astype(np.int64) if threads is None else threads
        out = self.load_bytes(p, size, who).view(dtype(t))
        self.count("load", size)
        return out if length(t) else out.reshape(-1)

    def load_bytes(self, p: np.ndarray, size: int, who: np.ndarray) -> np.ndarray:
        at = self.places(p, size)
        assert (self.written[at] >= 0).all(), "uninitialized shared memory"
        fresh = (self.write_time[at] == self.time) & (self.written[at] != who[:, None])
        assert not fresh.any(), "read of another thread's write without a barrier"
        who = np.broadcast_to(who[:, None], at.shape)
        several = (self.read_time[at] == self.time) & (self.reader[at] != who)
        self.read_time[at] = self.time
        self.reader[at] = who
        several |= self.reader[at] != who
        self.reader[at[several]] = -2
        return np.ascontiguousarray(self.shared[at])

    def store(self, p: np.ndarray, value: np.ndarray, align: int, where: np.ndarray | None = None) -> None:
        raw = np.ascontiguousarray(value).reshape(self.n, -1).view(np.uint8)
        where = np.ones(self.n, bool) if where is None else where
        size = raw.shape[1]
        assert align == size
        at = self.places(p[where], size)
        raw = raw[where]
        who = self.tid.astype(np.int64)[where][:, None]
        late = (self.read_time[at] == self.time) & (self.reader[at] != who)
        assert not late.any(), "write over what another thread reads, without a barrier"
        self.shared[at] = raw
        assert (self.shared[at] == raw).all(), "two threads write different values to one place"
        self.written[at] = who
        self.write_time[at] = self.time
        self.count("store", size)

    def count(self, what: str, size: int) -> None:
        key = f"{what}{size}"
        self.counts[key] = self.counts.get(key, 0) + 1

    # --- calls

    def call(self, callee: str, x: list[Any], t: Attribute) -> Any:
        name = callee.removeprefix("llvm.nvvm.")
        self.counts[name] = self.counts.get(name, 0) + 1
        lanes = self.tid.astype(np.int64)
        if name == "read.ptx.sreg.tid.x":
            return self.tid
        if name in ("bar.warp.sync", "barrier.cta.sync.aligned.all"):
            self.time += 1
            return None
        if name.startswith("shfl.sync."):
            _, value, operand, clamp = x
            assert (clamp == (0 if name == "shfl.sync.up.i32" else 31)).all()
            if name == "shfl.sync.bfly.i32":
                source = lanes ^ operand.astype(np.int64)
            elif name in ("shfl.sync.up.i32", "shfl.sync.down.i32"):
                there = lanes + operand.astype(np.int64) * (1 if "down" in name else -1)
                source = np.where(there // 32 == lanes // 32, there, lanes)
            else:
                source = lanes // 32 * 32 + operand.astype(np.int64)
                assert (operand < 32).all()
            return value[source]
        if name.startswith("redux.sync."):
            kind = name.removeprefix("redux.sync.")
            value = signed(x[0]) if kind in ("max", "min") else x[0]
            f = {"add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "max": np.maximum,
                 "min": np.minimum, "umax": np.maximum, "umin": np.minimum}[kind]
            out = f.reduce(value.reshape(-1, 32), axis=1, dtype=value.dtype)
            return np.repeat(out, 32).view(x[0].dtype)
        if name.startswith("ldmatrix"):
            return self.ldmatrix(name, x[0])
        if name.startswith("mma."):
            from tests.conversion.mma import multiply
            return multiply(name, x, self.n)
        if callee.startswith("llvm.fma."):
            return (x[0].astype(np.float64) * x[1].astype(np.float64) + x[2].astype(np.float64)).astype(x[0].dtype)
        minmax = {"smax": (np.maximum, True), "smin": (np.minimum, True), "umax": (np.maximum, False),
                  "umin": (np.minimum, False)}
        kind = callee.split(".")[1]
        if kind in minmax:
            f, is_signed = minmax[kind]
            return f(signed(x[0]), signed(x[1])).view(x[0].dtype) if is_signed else f(x[0], x[1])
        floats = {"maxnum": np.maximum, "maximum": np.maximum, "minimum": np.minimum, "maximumnum": np.fmax, "minimumnum": np.fmin}
        if kind in floats:
            return floats[kind](x[0], x[1])
        if name == "e4m3x2.to.f16x2.rn":
            return np.ascontiguousarray(x[0])[:, None].view(ml_dtypes.float8_e4m3fn).astype(np.float16)
        raise AssertionError(f"{callee} is unknown here")

    def ldmatrix(self, name: str, p: np.ndarray) -> Any:
        count = int(re.search(r"\.x(\d)", name).group(1))  # type: ignore[union-attr]
        out = []
        if ".m16n16." in name:
            for m in range(count):
                table = np.zeros((self.n // 32, 16, 16), np.uint8)
                for warp in range(self.n // 32):
                    givers = warp * 32 + m * 16 + np.arange(16)
                    table[warp] = self.load_bytes(p[givers], 16, givers).view(np.uint8)
                # lane (g, t) receives rows 4t to 4t + 3 of column g, then of column g + 8
                columns = np.ascontiguousarray(table.transpose(0, 2, 1)).view(np.uint32)
                out += [np.ascontiguousarray(columns[:, half:half + 8]).reshape(self.n) for half in (0, 8)]
            return out
        for m in range(count):
            rows = np.zeros((self.n // 32, 8, 8), np.uint16)
            for warp in range(self.n // 32):
                givers = warp * 32 + m * 8 + np.arange(8)
                rows[warp] = self.load_bytes(p[givers], 16, givers).view(np.uint16)
            if ".trans" in name:
                rows = rows.transpose(0, 2, 1)
            # lane (g, t) receives elements 2t and 2t+1 of row g
            words = np.ascontiguousarray(rows.reshape(self.n // 32, 32, 2)).view(np.uint32)
            out.append(words.reshape(self.n))
        return out if count > 1 else out[0]

    def asm(self, text: str, x: list[Any], t: Attribute) -> Any:
        match = re.match(r"@\$(\d+) (ld|st)\.shared(?:\.v(\d))?\.b(\d+) ", text)
        assert match, text
        count, width = int(match.group(3) or 1), int(match.group(4))
        size = count * width // 8
        if match.group(2) == "st":
            address, *words, predicate = x
            raw = np.stack([w.astype(f"u{width // 8}") for w in words], 1)
            self.store(address, raw, size, predicate)
            return None
        address, predicate, *old = x
        out = [o.copy() for o in old]
        if predicate.any():
            who = self.tid.astype(np.int64)[predicate]
            loaded = self.load_bytes(address[predicate], size, who).view(f"u{width // 8}")
            for i, o in enumerate(out):
                o[predicate] = loaded[:, i].astype(o.dtype)
        return out if len(out) > 1 else out[0]
