"""`python3 run.py PLAN --out results.json`: run the prepared experiments on the GPU of this machine.

Needs NumPy (and ml_dtypes for cases of small floats), libcuda.so.1 and nothing else; PyTorch and cuTile are used where they
are there. A child process runs the experiments one after another and prints a line of JSON for each; if it dies or hangs,
that experiment is recorded as such and a new child goes on with the next, so a fault costs one answer. `--dry-run` checks
that the plan's files are there and records each experiment as not run. Exit code 2: no plan, or no GPU.
"""
from __future__ import annotations

import argparse
import ctypes as c
import datetime
import functools
import json
import mmap
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

if __name__ == "__main__":     # alone on a GPU machine, without the project around it
    import sweep  # pyright: ignore[reportMissingImports]
    from gpu_driver import CudaError, Driver  # pyright: ignore[reportMissingImports]
    from gpu_values import WIDTHS, different, distance, largest, random_bytes  # pyright: ignore[reportMissingImports]
else:
    from bench.hardware import sweep
    from bench.hardware.gpu_driver import CudaError, Driver
    from bench.hardware.gpu_values import WIDTHS, different, distance, largest, random_bytes

LOG_ADDRESS, LOG_BYTES, RECORD_WORDS = 0x5100_0000_0000, 64 * 1024, 16
SECONDS = {"speed": 20, "encode": 60, "torch_matmul": 60, "torch_speed": 60, "frontend": 60}
DEFAULT_SECONDS = 8


def words(data: bytes) -> list[int]:
    return np.frombuffer(data, np.uint32).tolist()


def arrays_among(parameters: list[Any]) -> list[Any]:
    """Those in tables, too, in their order."""
    return [a for p in parameters for a in ([p] if p[0] == "array" else arrays_among(p[1]) if p[0] == "table" else [])]


class Runner:
    """The experiments of a plan on one driver; a method a kind. Each gives what the JSON records."""

    def __init__(self, folder: pathlib.Path, driver: Driver, log: str = "", whole_blocks: bool = False,
                 once: bool = False) -> None:
        self.folder, self.driver, self.whole_blocks, self.once = folder, driver, whole_blocks, once
        self.pool: dict[str, tuple[int, int]] = {}
        self.log = self._map_log(log) if log else None

    def run(self, e: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(self, e["kind"])(e)
        except (CudaError, OSError, ImportError, ValueError, RuntimeError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    @staticmethod
    def _map_log(path: str) -> Any:
        """Map the file at the address that the host objects write to. Linux only."""
        libc = c.CDLL(None, use_errno=True)
        libc.mmap.restype = c.c_void_p
        libc.mmap.argtypes = [c.c_void_p, c.c_size_t, c.c_int, c.c_int, c.c_int, c.c_long]
        handle = os.open(path, os.O_RDWR)
        fixed = 0x10     # MAP_FIXED
        at = libc.mmap(LOG_ADDRESS, LOG_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | fixed, handle, 0)
        if at != LOG_ADDRESS:
            raise OSError("cannot map the callbacks' log")
        return (c.c_char * LOG_BYTES).from_address(LOG_ADDRESS)

    def load(self, e: dict[str, Any], kernel: str = "probe") -> tuple[Any, Any]:
        return self.driver.load((self.folder / e["cubin"]).read_bytes(), kernel)

    def unload(self, library: Any) -> None:
        """Launches of kernels with host objects take the host longer the more libraries there are."""
        self.driver.call("cuLibraryUnload", library)

    def arrays(self, e: dict[str, Any]) -> dict[str, bytes]:
        with np.load(self.folder / e["data"]) as stored:
            return {name: stored[name].tobytes() for name in stored.files}

    def buffer(self, data: bytes) -> int:
        pointer = self.driver.allocate(len(data))
        self.driver.upload(pointer, data)
        return pointer

    def launch(self, e: dict[str, Any]) -> dict[str, Any]:
        """Threads, blocks, what the first blocks' registers held, the hidden block; for host objects the log after load,
        after a first launch, a repetition with the same arguments, and one with other arguments."""
        driver, out, size = self.driver, {}, 65536
        if self.log:
            c.memset(LOG_ADDRESS, 0, LOG_BYTES)
        _, kernel = self.load(e)
        if e["host"]:
            out["log_after_load"] = self.callbacks()
        pointer, other = self.buffer(bytes(size)), self.buffer(bytes(size))
        driver.launch(kernel, e["grid"], e["block"], [c.c_uint64(pointer)], cluster=e.get("cluster"))
        driver.synchronize()
        data = words(driver.download(pointer, size))
        out |= {"threads": data[0], "blocks": data[1], "hidden": data[16:48] if e["hidden"] else None,
                "registers": [data[64 + 16 * i:80 + 16 * i] for i in range(min(data[1], 24))]}
        if e["host"]:
            for step, argument in (("first", None), ("same", pointer), ("other", other)):
                if argument is not None:
                    driver.launch(kernel, e["grid"], e["block"], [c.c_uint64(argument)])
                    driver.synchronize()
                out[f"log_after_{step}"] = self.callbacks()
            out["buffers"] = [pointer, other]
        return out

    def callbacks(self) -> list[list[str]]:
        if self.log is None:
            return []
        values = np.frombuffer(bytes(self.log), np.uint64)
        return [[hex(w) for w in values[RECORD_WORDS * (i + 1):RECORD_WORDS * (i + 2)]] for i in range(min(int(values[0]), 16))]

    def encode(self, e: dict[str, Any]) -> dict[str, Any]:
        """Every input of the sweep: [input, error code, the 128 bytes in hex]."""
        rows = []
        for row in sweep.inputs():
            code, data = self.tensor_map(row)
            rows.append([row, code, data.hex() if code == 0 else ""])
        return {"rows": rows, "accepted": sum(code == 0 for _, code, _ in rows)}

    def tensor_map(self, row: dict[str, Any]) -> tuple[int, bytes]:
        rank = len(row["dims"])
        space = (c.c_char * 256)()
        at = (c.addressof(space) + 63) // 64 * 64
        code = self.driver.library.cuTensorMapEncodeTiled(
            c.c_void_p(at), row["type"], rank, c.c_void_p(row["address"]), (c.c_uint64 * rank)(*row["dims"]),
            (c.c_uint64 * max(rank - 1, 1))(*row["strides"]), (c.c_uint32 * rank)(*row["box"]),
            (c.c_uint32 * rank)(*row["steps"]), row["interleave"], row["swizzle"], row["promotion"], row["fill"])
        return code, c.string_at(at, 128)

    def device_map(self, e: dict[str, Any]) -> dict[str, Any]:
        _, kernel = self.load(e)
        address, out = self.driver.allocate(1 << 20), self.buffer(bytes(256))
        self.driver.launch(kernel, (1, 1, 1), (32, 1, 1), [c.c_uint64(out), c.c_uint64(address)])
        self.driver.synchronize()
        data = self.driver.download(out, 136)
        code, made = self.tensor_map({**e, "address": address, "steps": [1] * len(e["dims"]), "interleave": 0, "promotion": 0,
                                      "fill": 0})
        return {"same": data[:128] == made, "code": code, "device": data[:128].hex(), "driver": made.hex(),
                "cycles": int.from_bytes(data[128:136], "little")}

    def product(self, e: dict[str, Any]) -> dict[str, Any]:
        _, kernel = self.load(e)
        stored = self.arrays(e)
        expected = stored["expected"]
        out, data = self.buffer(b"\xcb" * len(expected)), self.buffer(stored["data"])
        arguments = [c.c_uint64(v) for v in (out, data, *e["parameters"])]
        if e["shared"]:
            # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.driver.call("cuKernelSetAttribute", 8, e["shared"], kernel, self.driver.device)
        self.driver.launch(kernel, (1, 1, 1), (e["threads"], 1, 1), arguments, shared=e["shared"])
        self.driver.synchronize()
        got = self.driver.download(out, len(expected))
        return {"right": got == expected, **({} if got == expected else {"got": got[:256].hex(), "expected": expected[:256].hex()})}

    def parameters(self, e: dict[str, Any], arrays: Any) -> list[Any]:
        """ctypes values; "array" takes the next of the arrays, "table" is memory with the words among it."""
        out = []
        pointers = iter(arrays)
        for parameter in e["parameters"]:
            if parameter[0] == "array":
                out.append(c.c_uint64(next(pointers)))
            elif parameter[0] == "table":
                words = [w.value if isinstance(w, c.c_uint64) else int.from_bytes(bytes(w), "little", signed=False)
                         for w in self.parameters({"parameters": parameter[1]}, pointers)]
                out.append(c.c_uint64(self.buffer(np.array(words, np.uint64).tobytes())))
            else:
                raw = bytes.fromhex(parameter[1])
                out.append((c.c_char * len(raw)).from_buffer_copy(raw))
        return out

    def case(self, e: dict[str, Any]) -> dict[str, Any]:
        """Worst error of the outputs, in tolerances (up to 1 passes)."""
        library, kernel = self.load(e, e["kernel"])
        stored = self.arrays(e)
        order = [p[1] for p in e["parameters"] if p[0] == "array"]
        pointers = {i: self.buffer(stored[f"a{i}"]) for i in order}
        self.driver.launch(kernel, e["grid"], self.block(kernel), self.parameters(e, (pointers[i] for i in order)))
        self.driver.synchronize()
        worst = {}
        for i, name in e["expected"].items():
            got, want = self.driver.download(pointers[int(i)], len(stored[f"e{i}"])), stored[f"e{i}"]
            worst[i] = 0.0 if got == want else distance(got, want, name, e["rtol"], e["atol"])
        for pointer in pointers.values():
            self.driver.free(pointer)
        self.unload(library)
        return {"right": all(w <= 1 for w in worst.values()), "worst": worst}

    def speed(self, e: dict[str, Any]) -> dict[str, Any]:
        """Median microseconds of a launch whose inputs aren't in L2 ("microseconds"), and of each of many in a row ("in_turn").
        What the first launch left is kept in `made` and compared with what the other side left there."""
        driver = self.driver
        library, kernel = self.load(e, e["kernel"])
        pointers, sizes = self.inputs(e)
        arguments, block = self.parameters(e, pointers), self.block(kernel)
        driver.launch(kernel, e["grid"], block, arguments)
        driver.synchronize()
        if self.once:
            for pointer in pointers:
                driver.free(pointer)
            return {}
        out: dict[str, Any] = {"difference": self.compared(e["name"], pointers, sizes)}
        times = self.timed(functools.partial(driver.launch, kernel, e["grid"], block, arguments))
        for pointer in pointers:
            driver.free(pointer)
        self.unload(library)
        unit = {"bytes": "GB/s", "flops": "GFLOP/s"}[e["unit"]]
        return {**out, **times, "rate": e["work"] / times["microseconds"] / 1e3, "unit": unit}

    def inputs(self, e: dict[str, Any]) -> tuple[list[int], list[tuple[int, str]]]:
        """Arrays of random values, or those that are stored, with their bytes and types."""
        pointers: list[int] = []
        sizes: list[tuple[int, str]] = []
        stored = self.arrays(e) if e.get("data") else {}
        for _, count, kind, bound, *key in arrays_among(e["parameters"]):
            size = count * WIDTHS[kind]
            sizes.append((size, kind))
            pointers.append(self.driver.allocate(size))
            if key:
                self.driver.upload(pointers[-1], stored[key[0]])
                continue
            held = len(random_bytes(kind, bound))
            source = self.uploaded(f"random {kind} {bound}", random_bytes(kind, bound))
            for at in range(0, size, held):
                self.driver.copy(pointers[-1] + at, source, min(held, size - at))
        return pointers, sizes

    def uploaded(self, name: str, data: bytes) -> int:
        """Memory with these bytes that experiments share."""
        if name not in self.pool:
            self.pool[name] = self.buffer(data), len(data)
        return self.pool[name][0]

    def pair(self, e: dict[str, Any]) -> dict[str, Any]:
        """What each side of a launch does with the same inputs: `worst`, errors of arrays in tolerances where it is known what must
        come out; `different`, elements that another launch left otherwise; `beside`, the largest difference from what the first
        side left, over the largest value; and times as `speed` takes them. "right" where `worst` allows it."""
        driver = self.driver
        kept, sizes = self.inputs(e)
        pointers = [driver.allocate(size) for size, _ in sizes]
        arguments = self.parameters(e, pointers)
        stored = self.arrays(e) if e.get("data") else {}
        wanted = [stored.get(f"e{key[0]}") if key else None for _, _, _, _, *key in arrays_among(e["parameters"])]
        out: dict[str, Any] = {}
        first: list[list[bytes]] = []

        def restore() -> None:
            for to, source, (size, _) in zip(pointers, kept, sizes):
                driver.copy(to, source, size)
        for one in e["sides"]:
            said: dict[str, Any] = {}
            out[one["who"]] = said
            try:
                library, kernel = self.load(one, one["kernel"])
                block = self.block(kernel)
                launch = functools.partial(driver.launch, kernel, e["grid"], block, arguments)
                if self.once:
                    restore()
                    launch()
                    driver.synchronize()
                    continue
                left: list[list[bytes]] = []
                most = [0] * len(pointers)
                for number in range(4):
                    restore()
                    if number % 2:
                        self.flush()
                    launch()
                    driver.synchronize()
                    got = [self.pieces(p, size) for p, (size, _) in zip(pointers, sizes)]
                    left = left or got
                    most = [max(n, sum(different(a, b, WIDTHS[kind]) for a, b in zip(old, new)))
                            for n, old, new, (_, kind) in zip(most, left, got, sizes)]
                said["different"] = most
                if any(w is not None for w in wanted):
                    ends = {i: (driver.download(pointers[i], len(w)), w) for i, w in enumerate(wanted) if w is not None}
                    said["worst"] = {i: distance(got, w, sizes[i][1], e["tolerance"], e["tolerance"]) if got != w else 0.0
                                     for i, (got, w) in ends.items()}
                    said["right"] = all(w <= 1 for w in said["worst"].values())
                if first:
                    said["beside"] = [max((largest(a, b, kind) for a, b in zip(old, new) if a != b), default=0.0)
                                      for old, new, (_, kind) in zip(first, left, sizes)]
                first = first or left
                said |= self.timed(launch)
                self.unload(library)
            except CudaError as error:
                said["error"] = str(error)
        for pointer in (*pointers, *kept):
            driver.free(pointer)
        return {**out, "right": all(said.get("right", True) and "error" not in said for said in out.values())}

    def pieces(self, pointer: int, size: int) -> list[bytes]:
        """The beginning, the middle and the end of an array."""
        piece = min(size, 4 << 20)
        return [self.driver.download(pointer + at, piece)
                for at in sorted({0, (size - piece) // 2 // 16 * 16, (size - piece) // 16 * 16})]

    def block(self, kernel: Any) -> tuple[int, int, int]:
        """(1, 1, 1) as frontends launch; all threads where this driver doesn't know tile kernels."""
        if not self.whole_blocks:
            return (1, 1, 1)
        threads = c.c_int()
        self.driver.call("cuKernelGetAttribute", c.byref(threads), 0, kernel, self.driver.device)
        return (threads.value, 1, 1)

    def timed(self, launch: Any) -> dict[str, Any]:
        """Microseconds of 15 launches, each after 512 MiB were written ("all"; "microseconds" is their median), of each of 20
        launches in a row ("in_turn"), and of the host's part of a launch ("host"). Events are waited for at the end only, and
        before each launch so much is written that the host is ahead."""
        driver = self.driver
        host = self.host_microseconds(launch)
        lead = 1 + int(2 * host / self.flush_microseconds)
        events = [c.c_void_p() for _ in range(36)]
        for event in events:
            driver.call("cuEventCreate", c.byref(event), 0)
        for i in range(17):
            self.flush(lead)
            driver.call("cuEventRecord", events[2 * i], None)
            launch()
            driver.call("cuEventRecord", events[2 * i + 1], None)
        self.flush(2 + 20 * lead)
        driver.call("cuEventRecord", events[34], None)
        for _ in range(20):
            launch()
        driver.call("cuEventRecord", events[35], None)
        driver.synchronize()
        cold = [driver.elapsed(events[2 * i], events[2 * i + 1]) for i in range(2, 17)]
        in_turn = driver.elapsed(events[34], events[35]) / 20
        for event in events:
            driver.call("cuEventDestroy_v2", event)
        return {"microseconds": statistics.median(cold), "in_turn": in_turn, "all": [round(t, 2) for t in cold],
                "host": round(host, 2)}

    def host_microseconds(self, launch: Any) -> float:
        """What a launch takes the host: the median of nine, none of which waits."""
        times = []
        for _ in range(10):
            start = time.perf_counter()
            launch()
            times.append((time.perf_counter() - start) * 1e6)
        self.driver.synchronize()
        return statistics.median(times[1:])

    @functools.cached_property
    def flush_microseconds(self) -> float:
        return statistics.median(self.driver.time(self.flush, 5))

    def flush(self, times: int = 1) -> None:
        """Write more than L2 holds."""
        size = 512 << 20
        for _ in range(times):
            self.driver.fill_async(self.pooled("flush", size), size)

    def compared(self, name: str, pointers: list[int], sizes: list[tuple[int, str]]) -> list[float | None]:
        """For each array, the largest difference from what the other side left, over the largest value: of three pieces."""
        _, who, kernel = name.split("/")
        out: list[float | None] = []
        for i, (pointer, (size, kind)) in enumerate(zip(pointers, sizes)):
            got = b"".join(self.pieces(pointer, size))
            path = self.folder / f"made_{kernel}_{i}"
            if who == "ours":
                path.write_bytes(got)
                out.append(None)
            elif path.exists():
                out.append(largest(path.read_bytes(), got, kind))
                path.unlink()
        return out

    def torch_speed(self, e: dict[str, Any]) -> dict[str, Any]:
        """PyTorch's own code for a kernel of `make speed`, timed as `speed` does."""
        import torch  # pyright: ignore[reportMissingImports]
        n, f = 4096, torch.nn.functional

        def some(*shape: int, of: Any = torch.float16) -> Any:
            return torch.randn(shape, device="cuda", dtype=of)
        what = e["what"]
        if what.startswith("matmul"):
            n = int(what.rsplit("_", 1)[1])
            action = functools.partial(torch.mm, some(n, n), some(n, n), out=some(n, n))
        elif what.startswith("attention"):
            heads, width = (16, 128) if "d128" in what else (32, 64)
            action = functools.partial(f.scaled_dot_product_attention, *(some(1, heads, n, width) for _ in range(3)),
                                       is_causal="causal" in what)
        elif what == "softmax_4096x4096_f32":
            action = functools.partial(torch.softmax, some(n, n, of=torch.float32), 1)
        elif what == "layer_norm_f16":
            action = functools.partial(f.layer_norm, some(8192, 1024), (1024,), some(1024), some(1024))
        elif what == "vector_add_f32":
            a, b, out = (some(1 << 24, of=torch.float32) for _ in range(3))
            action = functools.partial(torch.add, a, b, out=out)
        else:
            action = functools.partial(some(2 * n, n).copy_, some(n, 2 * n).t())
        action()
        torch.cuda.synchronize()
        if self.once:
            return {}
        return {**self.timed(action), "rate": 0, "unit": "GB/s"}

    def latency(self, e: dict[str, Any]) -> dict[str, Any]:
        """Cycles of one repetition: median of 5 launches (the first of them warms up)."""
        _, kernel = self.load(e)
        size, data = e["chain"] or 65536, bytes(65536)
        if e["chain"]:
            steps = size // 4096        # each 4 KiB holds one link; an odd stride visits all
            chain = np.zeros(size // 8, np.uint64)
            order = (np.arange(steps + 1, dtype=np.uint64) * np.uint64(40503)) % np.uint64(steps)
            chain[order[:-1] * np.uint64(512)] = order[1:] * np.uint64(4096)
            data = chain.tobytes()
        out, source = self.buffer(bytes(64)), self.buffer(data)
        self.driver.call("cuKernelSetAttribute", 8, 65536, kernel, self.driver.device)
        scratch = self.driver.allocate(256 << 20) if e["chain"] > 1 << 28 else 0
        cycles = []
        for _ in range(6):
            if scratch:     # so that no launch finds in L2 what the one before left there
                self.driver.fill(scratch, 0, 256 << 20)
            arguments = [c.c_uint64(out), c.c_uint64(source)]
            self.driver.launch(kernel, (1, 1, 1), (e["threads"], 1, 1), arguments, shared=65536)
            self.driver.synchronize()
            cycles.append(int.from_bytes(self.driver.download(out, 8), "little") / e["iterations"])
        self.driver.free(source)
        return {"cycles": statistics.median(cycles[1:]), "first": cycles[0], "all": cycles}

    def rate(self, e: dict[str, Any]) -> dict[str, Any]:
        """Cycles of one repetition in the median and in the slowest block, of a second kind of work beside the first where there is
        one, and microseconds of each launch. The first launch isn't counted."""
        driver = self.driver
        library, kernel = self.load(e)
        blocks = e["blocks"] or driver.attribute(16) * e["per_sm"]
        source, size = self.pooled("rate_in", e["bytes"]), 16 * blocks + 32768
        out = self.pooled("rate_out", size)
        driver.call("cuKernelSetAttribute", 8, e["shared"], kernel, driver.device)
        events = [c.c_void_p(), c.c_void_p()]
        for event in events:
            driver.call("cuEventCreate", c.byref(event), 0)
        middle, slowest, beside, times = [], [], [], []
        for i in range(5):
            driver.fill_async(out, size)
            if e["cold"]:
                self.flush()
            driver.call("cuEventRecord", events[0], None)
            driver.launch(kernel, (blocks, 1, 1), (e["threads"], 1, 1), [c.c_uint64(out), c.c_uint64(source)], shared=e["shared"])
            driver.call("cuEventRecord", events[1], None)
            driver.synchronize()
            if not i:
                continue
            cycles = np.frombuffer(driver.download(out, 16 * blocks), np.uint64).reshape(-1, 2)
            middle.append(float(np.median(cycles[:, 0])) / e["iterations"])
            slowest.append(float(cycles[:, 0].max()) / e["iterations"])
            beside.append(float(np.median(cycles[:, 1])))
            times.append(round(driver.elapsed(*events), 2))
        for event in events:
            driver.call("cuEventDestroy_v2", event)
        self.unload(library)
        cycles = statistics.median(middle)
        return {"cycles": cycles, "slowest": statistics.median(slowest), "beside": statistics.median(beside), "microseconds": times,
                "blocks": blocks, "work": e["work"], "unit": e["unit"], "rate": e["work"] / cycles if cycles else 0.0}

    def pooled(self, name: str, size: int) -> int:
        """Zeroed memory that experiments share; grows."""
        pointer, held = self.pool.get(name, (0, 0))
        if held < size:
            if held:
                self.driver.free(pointer)
            pointer, held = self.driver.allocate(size), size
            self.pool[name] = (pointer, held)
            self.driver.fill(pointer, 0, size)
        return pointer

    def approximation(self, e: dict[str, Any]) -> dict[str, Any]:
        """The hardware's outputs for 65536 inputs, as hex of float32, beside the inputs' rule: linspace(-8, 8)."""
        _, kernel = self.load(e)
        data = np.linspace(-8, 8, 65536, dtype=np.float32)
        source, out = self.buffer(data.tobytes()), self.buffer(bytes(data.nbytes))
        self.driver.launch(kernel, (256, 1, 1), (256, 1, 1), [c.c_uint64(out), c.c_uint64(source)])
        self.driver.synchronize()
        got = np.frombuffer(self.driver.download(out, data.nbytes), np.float32)
        return {"inputs": "numpy.linspace(-8, 8, 65536, dtype=float32)", "every": 64, "outputs": got[::64].tobytes().hex(),
                "finite": int(np.isfinite(got).sum())}

    def copy(self, e: dict[str, Any]) -> dict[str, Any]:
        size = 4 << 30
        to, source = self.driver.allocate(size), self.driver.allocate(size)
        times = self.driver.time(lambda: self.driver.copy(to, source, size), 20)
        self.driver.free(to)
        self.driver.free(source)
        return {"microseconds": statistics.median(times), "rate": 2 * size / statistics.median(times) / 1e3, "unit": "GB/s"}

    def torch_matmul(self, e: dict[str, Any]) -> dict[str, Any]:
        import torch  # pyright: ignore[reportMissingImports]
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        times = []
        for _ in range(13):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            torch.mm(a, b)
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last) * 1000)
        middle = statistics.median(times[3:])
        return {"microseconds": middle, "rate": 2 * 8192**3 / middle / 1e3, "unit": "GFLOP/s"}

    def frontend(self, e: dict[str, Any]) -> dict[str, Any]:
        """A vector addition by `ct.launch`, with the first `tileiras` on PATH."""
        import cuda.tile as ct  # pyright: ignore[reportMissingImports]
        import torch  # pyright: ignore[reportMissingImports]
        tool = shutil.which("tileiras")
        if tool is None:
            raise RuntimeError("no tileiras on PATH")
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()

        globals()["ct"] = ct        # where annotations are looked up

        @ct.kernel
        def add(a, b, out, n: ct.Constant[int]):
            i = ct.bid(0)
            ct.store(out, index=(i,), tile=ct.load(a, index=(i,), shape=(n,)) + ct.load(b, index=(i,), shape=(n,)))
        a, b = (torch.randn(4096, device="cuda") for _ in range(2))
        out = torch.zeros_like(a)
        ct.launch(torch.cuda.current_stream(), (4, 1, 1), add, (a, b, out, 1024))
        torch.cuda.synchronize()
        return {"right": bool(torch.equal(out, a + b)), "tileiras": said, "path": tool}


def child(folder: pathlib.Path, names: list[str], log: str, whole_blocks: bool, once: bool) -> int:
    """Run the named experiments; a line of JSON before ("start") and after each."""
    plan = {e["name"]: e for e in json.loads((folder / "plan.json").read_text())["experiments"]}
    runner = Runner(folder, Driver(), log, whole_blocks, once)
    for name in names:
        print(json.dumps({"start": name}), flush=True)
        result = runner.run(plan[name])
        print(json.dumps({"name": name, "result": result}), flush=True)
        try:
            runner.driver.synchronize()
        except CudaError:
            return 3        # the context is lost: the parent starts another process
    return 0


def supervise(folder: pathlib.Path, experiments: list[dict[str, Any]], command: list[str], deadline: float) -> dict[str, Any]:
    """Results by name, from as many children as it takes, until `deadline` (time.monotonic)."""
    results: dict[str, Any] = {}
    pending = [e["name"] for e in experiments]
    kinds = {e["name"]: e for e in experiments}
    while pending and time.monotonic() < deadline:
        # A host object runs inside the process, so it gets one of its own; everything else shares until something breaks.
        alone = bool(kinds[pending[0]].get("host"))
        batch = pending[:1] if alone else [n for n in pending if not kinds[n].get("host")]
        with tempfile.NamedTemporaryFile(suffix=".log") as log, tempfile.TemporaryFile() as said:
            log.truncate(LOG_BYTES)
            names = folder / "names.json"
            names.write_text(json.dumps(batch))
            process = subprocess.Popen([*command, str(folder), "--child", str(names), *(["--log", log.name] if alone else [])],
                                       stdout=subprocess.PIPE, stderr=said)
            current, why, waiting = batch[0], "", b""
            limit = time.monotonic() + DEFAULT_SECONDS
            assert process.stdout is not None
            while True:
                left = min(limit, deadline) - time.monotonic()
                if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                    why = "hung: no answer in time"
                    break
                data = os.read(process.stdout.fileno(), 1 << 20)
                if not data:
                    break
                *lines, waiting = (waiting + data).split(b"\n")
                for line in lines:
                    if not line.startswith(b"{"):
                        continue
                    message = json.loads(line)
                    if "start" in message:
                        current = message["start"]
                        limit = time.monotonic() + SECONDS.get(kinds[current]["kind"], DEFAULT_SECONDS)
                    else:
                        results[message["name"]] = message["result"]
            process.kill()
            code = process.wait()
            process.stdout.close()
            if current not in results:
                said.seek(0)
                results[current] = {"error": why or f"the process ended with {code}",
                                    "stderr": said.read().decode(errors="replace")[-500:]}
                if alone:
                    written = np.frombuffer(pathlib.Path(log.name).read_bytes(), np.uint64)
                    results[current]["log"] = [hex(w) for w in written[:RECORD_WORDS * 4]]
        pending = [n for n in pending if n not in results]
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("plan", type=pathlib.Path, help="the folder that `prepare` made")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results.json"))
    parser.add_argument("--question", type=int, action="append", help="only these questions")
    parser.add_argument("--seconds", type=float, default=540, help="stop after this long; what is left is recorded as not run")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--log", default="", help=argparse.SUPPRESS)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)    # with --child: one launch each, for a profiler
    parser.add_argument("--whole-blocks", action="store_true", help="launch tile kernels with all their threads")
    options = parser.parse_args()
    if options.child:
        return child(options.plan, json.loads(options.child.read_text()), options.log, options.whole_blocks, options.once)
    try:
        plan = json.loads((options.plan / "plan.json").read_text())
    except (OSError, ValueError) as error:
        print(f"no plan in {options.plan}: {error}; run prepare first", file=sys.stderr)
        return 2
    experiments = sorted((e for e in plan["experiments"] if not options.question or e["question"] in options.question),
                         key=lambda e: e["question"])
    report: dict[str, Any] = {"date": datetime.date.today().isoformat(), "tileiras": plan["tileiras"], "built": plan["built"]}
    if options.dry_run:
        missing = [e["name"] for e in experiments for key in ("cubin", "data")
                   if e.get(key, "none") != "none" and not (options.plan / e[key]).is_file()]
        report |= {"machine": None, "missing": missing}
        results: dict[str, Any] = {}
    else:
        try:
            report["machine"] = Driver().facts()
        except (OSError, CudaError) as error:
            print(f"no GPU here: {error}", file=sys.stderr)
            return 2
        command, deadline = [sys.executable, str(pathlib.Path(__file__).resolve())], time.monotonic() + options.seconds
        first = [e for e in experiments if e["question"] == 1]
        results = supervise(options.plan, first, command, deadline) if first else {}
        if options.whole_blocks or (first and not results.get("language_7/block1", {}).get("threads", 0) >= 128 * 12):
            command.append("--whole-blocks")
            report["launched"] = "with all threads"
        results |= supervise(options.plan, [e for e in experiments if e["question"] != 1], command, deadline)
    report["results"] = [{**{k: v for k, v in e.items() if k not in ("parameters", "data", "cubin")},
                          "result": results.get(e["name"], {"error": "not run"})} for e in experiments]
    options.out.write_text(json.dumps(report))
    wrong = sum("error" in r["result"] or r["result"].get("right") is False for r in report["results"])
    print(f"{len(experiments)} experiments, {wrong} with an error or a wrong value: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
