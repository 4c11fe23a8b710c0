"""`python -m bench.hardware.report results.json ...`: what runs found, as Markdown under docs/hardware.md's questions.

Prints, or with `--write FILE` replaces what stands between the markers in that file; `--keep FILE` writes what the answers rest
on as a smaller JSON, which is read like a run's. Of several files the last one with a row counts; of a kernel's times the least.
Only what the results say is written: a question without results says so.
"""
from __future__ import annotations

import argparse
import base64
import json
import math
import pathlib
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bench.hardware import host_object, latency_probes, sweep
from bench.hardware.launch_probes import REGISTERS
from tileiras.layout.tensormap import ATOMICITIES, DRIVER_TYPES, PROMOTIONS, TensorMap, TensorMapError

BEGIN, END = "<!-- answers: begin -->", "<!-- answers: end -->"
SECTIONS = {
    "The launch contract": (1, 2, 3, 4, 7), "Host callbacks": (5,), "cuTile's own launch": (6,), "cuTensorMapEncodeTiled": (8,),
    "Maps built on the device": (9,), "Right values": (10, 11, 12), "The device's rates": (13,), "Benchmark kernels": (14,),
    "Latencies": (15,), "Approximate functions": (18,), "Programs and launches": (20,)}
"""Their questions."""
WHAT = {10: "wgmma", 11: "mma.sync", 12: "suite"}
ROOT = pathlib.Path(__file__).resolve().parents[2]
PREDICTED = ROOT / "bench" / "results" / "speed.json"
QUARTILE = 4
"""Of this many launches of a kernel out of cold caches one was faster than the time that counts: some are interrupted."""
STEPS = ("load", "first", "same", "other")
"""When the runner copies the callbacks' log: after the library was loaded, and after each of three launches."""
Rows = list[dict[str, Any]]


def error(row: dict[str, Any]) -> str:
    return str(row["result"].get("error", ""))


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    lines = [list(map(str, head)), *(list(map(str, row)) for row in rows)]
    return [f"| {' | '.join(lines[0])} |", "|" + "---|" * len(lines[0]), *(f"| {' | '.join(line)} |" for line in lines[1:])]


# ---- what is kept of a run

def packed(data: bytes) -> str:
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what no answer needs; one that is so already stays as it is."""
    result, kind = row["result"], row["kind"]
    if "error" in result:
        return {k: row[k] for k in ("name", "question", "kind", "block", "hidden", "host") if k in row} | {
            "result": {"error": result["error"]}}
    out = {k: row[k] for k in ("name", "question", "kind", "block") if k in row}
    if kind == "launch" and "registers" in result:
        held = {name: sorted({r[i] for r in result["registers"]}) for i, name in enumerate(REGISTERS) if name != "%smid"}
        out["result"] = {k: v for k, v in result.items() if k != "registers"} | {"held": held}
    elif kind == "encode" and "rows" in result:
        found = b"".join(bytes(128) if code else bytes.fromhex(made) for _, code, made in result["rows"])
        out["result"] = {"rows_packed": packed(found), "codes": packed(bytes(min(code, 255) for _, code, _ in result["rows"]))}
    elif kind == "approximation" and len(result.get("outputs", "")) > 2:
        out["result"] = {"every": result["every"], "outputs_packed": packed(bytes.fromhex(result["outputs"]))}
    elif kind in ("speed", "torch_speed") and "all" in result:
        out["result"] = {"cold": round(sorted(result["all"])[len(result["all"]) // QUARTILE], 2),
                         "in_turn": round(result["in_turn"], 2), "difference": result.get("difference")}
    elif kind == "pair":
        out["result"] = {who: kept_side(said) if isinstance(said, dict) else said for who, said in result.items()}
    else:
        out["result"] = {k: v for k, v in result.items() if k not in ("all", "first", "worst")}
    return out


def kept_side(said: dict[str, Any]) -> dict[str, Any]:
    """A side of a pair."""
    if "error" in said or "cold" in said:
        return said
    return {"cold": round(sorted(said["all"])[len(said["all"]) // QUARTILE], 2), "in_turn": round(said["in_turn"], 2),
            "different": sum(said["different"]), "beside": max(said.get("beside") or [0.0]),
            **{k: said[k] for k in ("right", "host") if k in said}}


def merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One report of what is kept of several."""
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for report in reports:
        for row in map(kept, report["results"]):
            before, result = rows.get((row["question"], row["name"])), row["result"]
            if before and "cold" in before["result"] and "cold" in result:
                for time in ("cold", "in_turn"):
                    result[time] = min(result[time], before["result"][time])
            rows[row["question"], row["name"]] = row
    last = reports[-1]
    machine = next((r["machine"] for r in reversed(reports) if r.get("machine")), None)
    return {"date": last["date"], "tileiras": last["tileiras"], "machine": machine, "results": list(rows.values())}


def as_text(report: dict[str, Any]) -> str:
    """JSON of a row a line. Rows of one kind that say the same are one, with their names."""
    groups: dict[str, dict[str, Any]] = {}
    for row in report["results"]:
        plain = {k: v for k, v in row.items() if k != "name"}
        groups.setdefault(json.dumps(plain, sort_keys=True), {"names": [], **plain})["names"].append(row["name"])
    head = {k: v for k, v in report.items() if k != "results"}
    return json.dumps(head)[:-1] + ', "groups": [\n' + ",\n".join(map(json.dumps, groups.values())) + "\n]}\n"


def read(path: pathlib.Path) -> dict[str, Any]:
    """A run's JSON, or what was kept of one."""
    report = json.loads(path.read_text())
    if "groups" in report:
        groups = report.pop("groups")
        report["results"] = [{"name": name, **{k: v for k, v in g.items() if k != "names"}} for g in groups for name in g["names"]]
    return report


# ---- the launch contract

def launch_facts(row: dict[str, Any]) -> tuple[str, ...]:
    """What a probe saw, without what differs between blocks."""
    result = row["result"]
    if error(row):
        return (error(row), *[""] * 6)

    def values(*names: str) -> str:
        return ", ".join(str(v[0] if len(v) == 1 else f"{v[0]} to {v[-1]}") for v in map(result["held"].get, names) if v)
    hidden = sorted(set(result["hidden"])) if result.get("hidden") else []
    return (f"{result['threads'] / max(result['blocks'], 1):g}", str(result["blocks"]), values("%nctaid.x", "%nctaid.y"),
            values("%ctaid.x", "%ctaid.y"), values("%clusterid.x", "%clusterid.y"), values("%nclusterid.x", "%cluster_nctaid.x"),
            " ".join(f"{w:#x}" for w in hidden))


LAUNCH_HEAD = ("probes", "threads a block", "blocks", "%nctaid", "%ctaid", "%clusterid", "%nclusterid, CTAs of a cluster",
               "hidden words")


def launch_lines(rows: Rows) -> list[str]:
    """A row for what all of some probes saw."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(launch_facts(row), []).append(row)
    out = []
    sized = [(int(size[1]), row) for row in rows if (size := re.match(r"shared_(\d+)k", row["name"]))]
    for facts, same in groups.items():
        names: dict[str, list[str]] = {}
        for row in same:
            probe, _, launched = row["name"].partition("/")
            names.setdefault(probe, []).append(launched)
        variants: dict[tuple[str, ...], list[str]] = {}
        for probe, launched in names.items():
            variants.setdefault(tuple(sorted(launched)), []).append(probe)
        words = "; ".join(f"{shortened(probes)}: {', '.join(launched)}" for launched, probes in variants.items())
        out.append((words, *facts))
    lines = table(LAUNCH_HEAD, out)
    if sized:
        right = [kib for kib, row in sized if not error(row) and
                 row["result"]["held"]["%total_smem_size"] == [kib * 1024]]
        lines += ["", f"`%total_smem_size` is the array's size in {len(right)} of {len(sized)} launches, "
                  f"the largest {max(right, default=0)} KiB."]
    return lines


def shortened(names: list[str]) -> str:
    """`shared_16k shared_48k` as `shared_{16k, 48k}`."""
    heads: dict[str, list[str]] = {}
    for name in names:
        head, _, tail = name.rpartition("_") if re.search(r"_\d+k?$", name) else (name, "", "")
        heads.setdefault(head, []).append(tail)
    return ", ".join(f"`{head}`" if tails == [""] else f"`{head}_{tails[0]}`" if len(tails) == 1 else
                     f"`{head}_{{{', '.join(t for t in tails if t)}}}`" for head, tails in heads.items())


def callback_lines(rows: Rows) -> list[str]:
    """When the driver called a host object's callbacks, and with what."""
    good, bad = [r for r in rows if not error(r)], [r for r in rows if error(r)]
    calls: dict[tuple[str, ...], list[str]] = {}
    loads, changes = [], []                     # (row, record)
    for row in good:
        logs = [[[int(w, 16) for w in r] for r in row["result"].get(f"log_after_{step}", ())] for step in STEPS]
        counted = (", ".join(str(sum(r[0] == tag for r in log)) for log in logs)
                   for tag in (host_object.TAG_PRE_LOAD, host_object.TAG_ARGUMENTS))
        calls.setdefault(tuple(counted), []).append(row["name"].partition("/")[0])
        loads += [(row, r) for r in logs[-1] if r[0] == host_object.TAG_PRE_LOAD]
        changes += [(row, r) for r in logs[-1] if r[0] == host_object.TAG_ARGUMENTS]
    out = [f"- {shortened(names)}: calls counted after loading and after each of three launches (the second with the first's "
           f"arguments, the third with others): ON_PRE_LOAD {loaded}; ON_ARGUMENTS_CHANGE {changed}."
           for (loaded, changed), names in calls.items()]
    if loads and changes:
        first = {row["name"]: r for row, r in loads}
        same = all(first[row["name"]][1:3] == r[1:3] for row, r in changes)
        size = shown(r[7] for row, r in loads if "look" in row["name"])
        behind = [r[10:16] for row, r in changes if "look" in row["name"]]
        buffers = [len({r[4] for x, r in changes if x is row}) for row in good]
        out += [f"- ON_PRE_LOAD(table, device, version {shown(r[3] for _, r in loads)}, out). ON_ARGUMENTS_CHANGE gets "
                f"{'the same' if same else 'other'} first two arguments, and {max(buffers)} buffer of parameters as its fourth. "
                f"Behind table stands its size, {size} bytes; three words behind ON_ARGUMENTS_CHANGE's second and third arguments: "
                f"{'; '.join(sorted({' '.join(map(str, words)) for words in behind}))}."]
    codes = [(row["name"].partition("/")[0], f"{int(found[1]) & 0xFFFFFFFF:#x}") for row in bad
             if (found := re.search(r"\((-?\d+)\)$", error(row)))]
    if codes:
        names, said = zip(*codes)
        out += [f"- {shortened(list(names))}: the launch fails with {', '.join(said)}, the low half of what ON_PRE_LOAD returned, "
                "an address: the driver takes it for a CUresult."]
    return out + [f"- {row['name']}: {error(row)}" for row in bad if not re.search(r"\(-?\d+\)$", error(row))]


def shown(values: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(values)))) or "nothing"


# ---- descriptors

def tensor_map(given: dict[str, Any]) -> TensorMap:
    """The project's map of the sweep's values, which are those of cuTensorMapEncodeTiled."""
    swizzle, atomicity = ((0, 0), (32, 0), (64, 0), (128, 0), (128, 1), (128, 2), (128, 3))[given["swizzle"]]
    return TensorMap(given["address"], DRIVER_TYPES[given["type"]], tuple(given["dims"]), tuple(given["strides"]),
                     tuple(given["box"]), tuple(given["steps"]), interleave=(0, 16, 32)[given["interleave"]], swizzle=swizzle,
                     atomicity=ATOMICITIES[atomicity], promotion=PROMOTIONS[given["promotion"]], nan_fill=bool(given["fill"]))


def swept(row: dict[str, Any]) -> list[tuple[dict[str, Any], int, bytes]]:
    """Input, code and bytes of each map of the sweep."""
    result = row["result"]
    if "rows" in result:
        return [(given, code, bytes.fromhex(made)) for given, code, made in result["rows"]]
    if "rows_packed" not in result:
        return []
    found, codes = unpacked(result["rows_packed"]), unpacked(result["codes"])
    return [(given, code, b"" if code else found[128 * i:128 * i + 128])
            for i, (given, code) in enumerate(zip(sweep.inputs(), codes, strict=True))]


def encode_lines(rows: Rows) -> list[str]:
    """The driver's bytes against those of `tileiras.layout.tensormap`: as host objects write them, and as it knows the driver's."""
    counts: Counter[str] = Counter()
    differing = known = 0
    for given, code, made in (r for row in rows for r in swept(row)):
        ours = None
        try:
            m = tensor_map(given)
            ours = m.encode()
        except (TensorMapError, IndexError) as problem:
            why = f" ({problem})" if not code else ""
        else:
            why = ""
            if code:
                why = " (swizzle atomicity)" if m.atomicity != ATOMICITIES[0] else f" ({m.element})"
        if code or ours is None:
            counts["refused by both" if code and ours is None else f"refused by the driver only{why}" if code else
                   f"refused by tileiras only{why}"] += 1
            continue
        bits = int.from_bytes(ours, "little") ^ int.from_bytes(made, "little")
        counts["different" if bits else "the same"] += 1
        known += b"".join(w.to_bytes(4, "little") for w in m.driver_words()) == made
        differing |= bits
    where = ", ".join(f"{bit // 32}.{bit % 32}" for bit in range(1024) if differing >> bit & 1)
    return [*(f"- {row['name']}: {error(row)}" for row in rows if error(row)),
            ", ".join(f"{key} {count}" for key, count in sorted(counts.items())) + ".",
            *([f"Differing bits (word.bit): {where}. With `TensorMap.driver_words`, {known} are the same."] if where else [])]


def device_map_lines(rows: Rows) -> list[str]:
    """Whether maps made by `tensormap.replace` are the driver's, by rank."""
    groups: dict[int, list[tuple[bool, bool, int]]] = {}
    for row in rows:
        if not error(row):
            device, driver = (bytes.fromhex(row["result"][who]) for who in ("device", "driver"))
            rank = int(found[1]) if (found := re.search(r"rank(\d)", row["name"])) else 0
            groups.setdefault(rank, []).append((device[:64] == driver[:64], not any(device[64:]), row["result"]["cycles"]))
    return [*table(("rank", "maps", "first 64 bytes as the driver's", "the others 0", "cycles"),
                   ((rank, len(found), sum(f[0] for f in found), sum(f[1] for f in found), shown(f[2] for f in found))
                    for rank, found in sorted(groups.items()))), *(f"- {row['name']}: {error(row)}" for row in rows if error(row))]


# ---- values and speed

def value_lines(rows: Rows) -> list[str]:
    counts: Counter[str] = Counter()
    bad = []
    for row in rows:
        who = WHAT.get(row["question"], "all") + (f", {row['name'].split('/')[0]}" if "/" in row["name"] else "")
        right = row["result"].get("right", row["result"].get("same"))
        counts[f"{who}: {'right' if right else 'failed' if error(row) else 'different'}"] += 1
        if not right:
            bad.append(f"- {row['name']}: {error(row) or {k: v for k, v in row['result'].items() if k in ('worst', 'code')}}")
    return ["; ".join(f"{key} {count}" for key, count in sorted(counts.items())) + ".", *([""] if bad else []), *bad[:60],
            *([f"- and {len(bad) - 60} more"] if len(bad) > 60 else [])]


def rate_lines(rows: Rows) -> list[str]:
    return [f"{row['name']}: " + (error(row) or "{microseconds:.1f} us, {rate:.0f} {unit}".format(**row["result"])) + "."
            for row in rows]


def mean(ratios: list[float]) -> str:
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "-"


def speed_lines(rows: Rows, predictions: pathlib.Path = PREDICTED, machine: str = "H100") -> list[str]:
    """Each kernel: microseconds of a launch out of cold caches, and of each of many in turn; the original's over ours."""
    times: dict[str, dict[str, dict[str, Any]]] = {}
    failed = []
    for row in rows:
        _, who, kernel = row["name"].split("/")
        if error(row):
            failed.append(f"- {row['name']}: {error(row)}")
        else:
            times.setdefault(kernel, {})[who] = row["result"]
    said = {p["kernel"]: p["ratio"] for p in json.loads(predictions.read_text())
            if p["machine"] == machine and p["ratio"]} if predictions.exists() else {}
    ratios: dict[str, list[float]] = {"cold": [], "in_turn": [], "predicted": [], "torch": [], "torch_turn": []}
    lines, different = [], []
    for kernel, by in times.items():
        ours, theirs, torch = (by.get(who) for who in ("ours", "original", "torch"))
        cells = [kernel, *(f"{r['cold']:.1f}, {r['in_turn']:.1f}" if r else "" for r in (ours, theirs, torch))]
        for time in ("cold", "in_turn"):
            cells.append(f"{theirs[time] / ours[time]:.2f}" if ours and theirs else "")
        if ours and theirs and kernel in said:
            for time in ("cold", "in_turn"):
                ratios[time].append(theirs[time] / ours[time])
            ratios["predicted"].append(said[kernel])
        if ours and torch:
            ratios["torch"].append(torch["cold"] / ours["cold"])
            ratios["torch_turn"].append(torch["in_turn"] / ours["in_turn"])
        lines.append([*cells, f"{said[kernel]:.2f}" if kernel in said and theirs else ""])
        worst = max((d for d in (theirs or {}).get("difference") or () if d is not None), default=0.0)
        if worst > 1e-3:
            different.append(f"`{kernel}` {worst:.2g}")
    count = len(ratios["predicted"])
    means = {key: mean(values) for key, values in ratios.items()}
    return [f"Microseconds, out of cold caches (the lower quartile) and in turn. Geometric means of the original's time over "
            f"ours, {count} kernels: {means['cold']} cold, {means['in_turn']} in turn, {means['predicted']} predicted; of "
            f"PyTorch's over ours, {len(ratios['torch'])}: {means['torch']}, {means['torch_turn']}.", "",
            *table(("kernel", "ours", "original", "PyTorch", "ratio cold", "in turn", "predicted"), lines), *failed,
            *(["", f"Results of ours and the original that differ by more than 1e-3 of the largest value: {', '.join(different)}."]
              if different else [])]


BEHIND = 12
"""Microseconds a launch: where launches in turn take so much longer than one out of cold caches, the host was behind the GPU."""
EVEN = 0.95
BOTH = ("ours", "original")
SIDES = "sides of one kernel"


def pair_lines(rows: Rows) -> list[str]:
    """Launches by what they were taken from: which sides were right, repeat themselves and agree, and how their times compare."""
    groups: dict[str, list[tuple[str, str, dict[str, dict[str, Any]]]]] = {}
    for row in rows:
        name, sides = row["name"].partition("/")[2], {who: said for who, said in row["result"].items() if isinstance(said, dict)}
        groups.setdefault(group_of(name), []).append((name, error(row), sides))
    lines, slow, notes, steps = [], [], [], []
    for group, members in groups.items():
        judged = {who: [side["right"] for _, _, sides in members if "right" in (side := sides.get(who, {}))] for who in BOTH}
        ratios = {name: sides["original"]["cold"] / sides["ours"]["cold"] for name, _, sides in members if all(
            "cold" in (side := sides.get(who, {})) and side["in_turn"] < side["cold"] + BEHIND for who in BOTH)}
        lines.append([group, len(members), *(f"{sum(found)} of {len(found)}" if found else "" for found in judged.values()),
                      len(ratios), mean(list(ratios.values())), sum(ratio < EVEN for ratio in ratios.values())])
        slow += [f"`{name}` {ratio:.2f}" for name, ratio in sorted(ratios.items(), key=lambda x: x[1]) if ratio < EVEN]
        for name, why, sides in members:
            moved = [who for who, side in sides.items() if side.get("different")]
            apart = max((side.get("beside", 0.0) for side in sides.values()), default=0.0)
            notes += [f"`{name}` ends with: {why}"] if why else []
            notes += [f"`{name}` of {' and '.join(moved)} leaves something else in another launch"] if moved else []
            notes += [f"`{name}` leaves other values by {apart:.2g} of the largest"] if apart > 1e-2 else []
        if group == SIDES:
            steps = [[name, "; ".join(f"{who} {side['cold']:.1f}" for who, side in sides.items() if "cold" in side)]
                     for name, why, sides in members if not why]
    return ["Each launch with the same inputs by ours and by the original, four times: whether it was right, where it is known "
            "what must come out (larger arrays of floats are random, which makes both sides wrong); and, out of cold caches and "
            "where the host kept up, the geometric mean of the original's time over ours.", "",
            *table(("taken from", "launches", "ours right", "original right", "timed", "ratio", f"below {EVEN}"), lines), "",
            f"Below {EVEN}: {', '.join(slow) or 'none'}.", "", *(f"- {note}" for note in notes),
            *(["", *table(("kernel", "microseconds"), steps)] if steps else [])]


def group_of(name: str) -> str:
    """What a pair was taken from, by its name."""
    kinds = {"_": "TileGym", "tm_": "configurations", "step_": "steps of a ladder", "var_": SIDES, "depth_": SIDES, "regs_": SIDES}
    return next((kind for prefix, kind in kinds.items() if name.startswith(prefix)), "programs")


def latency_lines(rows: Rows) -> list[str]:
    return ["Cycles: " + ", ".join(f"{row['name']} {error(row) or format(row['result']['cycles'], '.1f')}" for row in rows) + "."]


# ---- approximate functions

BOUNDS: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]]] = {
    # what the PTX ISA allows, and how a value at x, against the exact one, stands to that: up to 1 is allowed
    "tanh": ("2^-11 relative", lambda x, got, exact: np.abs(got / exact - 1) * 2**11),
    "ex2": ("2 ulp", lambda x, got, exact: np.abs(got - exact) / np.spacing(exact.astype(np.float32)) / 2),
    "lg2": ("2^-22, relative outside of 0.5 to 2",
            lambda x, got, exact: np.abs(got - exact) / np.where((x > 0.5) & (x < 2), 1, np.abs(exact)) * 2**22),
    "rsqrt": ("2^-22.9 relative", lambda x, got, exact: np.abs(got / exact - 1) * 2**22.9),
    "rcp": ("1 ulp", lambda x, got, exact: np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))),
    "sqrt": ("2^-23 relative", lambda x, got, exact: np.abs(got / exact - 1) * 2**23),
    **dict.fromkeys(("sin", "cos"), ("2^-20.5 up to 2 pi, 2^-14.7 beyond", lambda x, got, exact:
                                     np.abs(got - exact) * np.where(np.abs(x) <= 2 * np.pi, 2**20.5, 2**14.7)))}
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh, "ex2": np.exp2, "lg2": np.log2, "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos}
INPUTS = np.linspace(-8, 8, 65536, dtype=np.float32)


def simulated(name: str, inputs: np.ndarray) -> np.ndarray:
    """The simulator's values of an approximate instruction."""
    from tileiras import sim
    out = np.zeros(len(inputs), np.float32)
    sim.simulate(latency_probes.approximations()[name], kernel="probe", grid=(len(inputs) // 256, 1, 1), args=[out, inputs.copy()])
    return out


def approximation_lines(rows: Rows) -> list[str]:
    """The hardware's values beside the simulator's."""
    lines, failed = [], []
    same: dict[str, list[str]] = {}
    for row in rows:
        said = same.setdefault(json.dumps(row["result"]), [])
        said.append(f"`{row['name']}`")
        if len(said) > 1 and not error(row):
            continue
        result = row["result"]
        data = unpacked(result["outputs_packed"]) if "outputs_packed" in result else bytes.fromhex(result.get("outputs", ""))
        if error(row) or row["name"] not in latency_probes.approximations() or len(data) < 8:
            failed.append(f"- {row['name']}: {error(row) or 'no values'}")
            continue
        inputs, got = INPUTS[::result["every"]], np.frombuffer(data, np.float32)
        ours, name = simulated(row["name"], inputs), row["name"].partition(".")[0]
        number = np.isfinite(got) & np.isfinite(ours)
        odd = int((~(number | (got == ours) | (np.isnan(got) & np.isnan(ours)))).sum())
        x, g, o = (a[number].astype(np.float64) for a in (inputs, got, ours))
        ulp = np.abs(got[number].view(np.int32).astype(np.int64) - ours[number].view(np.int32))
        with np.errstate(all="ignore"):
            exact = EXACT[name](x)
            worst = max(float(np.nan_to_num(BOUNDS[name][1](x, v, exact)).max()) for v in (g, o))
            relative, absolute = np.nan_to_num(np.abs(g / o - 1)).max(), np.abs(g - o).max()
        lines.append((said, len(x), f"{(ulp == 0).mean():.0%}", ulp.max(), power(relative), power(absolute),
                      BOUNDS[name][0], f"{worst:.2f}", odd))
    return [*table(("instruction", "numbers", "same", "most ulp", "relative", "absolute", "allowed by the PTX ISA", "of that used",
                    "one no number"), ((", ".join(names), *cells) for names, *cells in lines)), *failed]


def power(value: float) -> str:
    return f"2^{math.log2(value):.1f}" if value else "0"


def other_lines(rows: Rows) -> list[str]:
    return [f"- {row['name']}: " + (error(row) or ", ".join(
        f"{k} {v}" for k, v in row["result"].items() if k not in ("rows", "outputs"))) for row in rows]


KINDS: dict[str, Callable[[Rows], list[str]]] = {
    "launch": launch_lines, "product": value_lines, "case": value_lines, "device_map": device_map_lines, "speed": speed_lines,
    "torch_speed": speed_lines, "copy": rate_lines, "torch_matmul": rate_lines, "latency": latency_lines, "encode": encode_lines,
    "approximation": approximation_lines, "pair": pair_lines}


def render(report: dict[str, Any], evidence: str) -> str:
    """The answers as Markdown. `evidence` names the results file."""
    report = merged([report])
    machine = report.get("machine")
    out = [BEGIN, "## What a run found"]
    if machine:
        out += [f"{report['date']}, {machine['gpu']}, driver {machine['driver']}, {machine['sms']} SMs, tileiras "
                f"{report['tileiras']}. Evidence: `{evidence}`, by `bench/hardware/run.py`."]
    else:
        out += ["No GPU has run this yet."]
    for title, questions in SECTIONS.items() if machine else ():
        rows = [row for row in report["results"] if row["question"] in questions and error(row) != "not run"]
        out += ["", f"### {', '.join(map(str, questions))}. {title}"]
        if not rows:
            out.append("Not run.")
        elif questions == (5,):
            out += callback_lines(rows)
        else:
            out += KINDS.get(rows[0]["kind"], other_lines)(rows)
        missing = [str(q) for q in questions if rows and q not in {row["question"] for row in rows}]
        out += [f"Not run: question {', '.join(missing)}."] if missing else []
    return "\n".join([*out, END])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hardware.report", description=str(__doc__).splitlines()[0])
    parser.add_argument("results", type=pathlib.Path, nargs="+")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    try:
        report = merged([read(path) for path in options.results])
    except (OSError, ValueError, KeyError) as problem:
        print(f"cannot read {', '.join(map(str, options.results))}: {problem}", file=sys.stderr)
        return 2
    if options.keep:
        options.keep.write_text(as_text(report))
    evidence = (options.keep or options.results[-1]).resolve()
    text = render(report, str(evidence.relative_to(ROOT)) if evidence.is_relative_to(ROOT) else evidence.name)
    if options.write is None:
        print(text)
        return 0
    page = options.write.read_text()
    head, begin, rest = page.partition(BEGIN)
    if begin and END in rest:
        page = head + text + rest.partition(END)[2]
    else:
        page = page.rstrip() + "\n\n" + text + "\n"
    options.write.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
