"""`python -m bench.hardware.report results.json`: what a run found, as Markdown under docs/hardware.md's questions.

Prints, or with `--write FILE` replaces what stands between the markers in that file. Only what the results say is written:
a question without results says so.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections import Counter
from typing import Any

from bench.hardware.launch_probes import REGISTERS
from tileiras.layout.tensormap import ATOMICITIES, DRIVER_TYPES, PROMOTIONS, TensorMap, TensorMapError

BEGIN, END = "<!-- answers: begin -->", "<!-- answers: end -->"
TITLES = {
    1: "Block (1,1,1) and the number of threads", 2: "Metadata global, PTX version", 3: "What the registers hold",
    4: "Hidden parameters", 5: "Host callbacks", 6: "cuTile's own launch", 7: "Static shared memory",
    8: "cuTensorMapEncodeTiled", 9: "Maps built on the device", 10: "wgmma", 11: "mma.sync", 12: "The kernel suite",
    13: "The device's rates", 14: "Benchmark kernels", 15: "Latencies", 18: "Approximate functions"}
Rows = list[dict[str, Any]]


def error(row: dict[str, Any]) -> str:
    return str(row["result"].get("error", ""))


def launch_lines(rows: Rows) -> list[str]:
    out = ["| probe | block | threads | blocks | first block's registers |", "|---|---|---|---|---|"]
    for row in rows:
        result = row["result"]
        if error(row):
            out.append(f"| {row['name']} | {row['block']} | {error(row)} | | |")
            continue
        first = result["registers"][:1]
        held = ", ".join(f"{name} {value}" for name, value in zip(REGISTERS, first[0])) if first else ""
        out.append(f"| {row['name']} | {row['block']} | {result['threads']} | {result['blocks']} | {held} |")
    for row in rows:
        if row["result"].get("hidden") is not None:
            out += ["", f"`{row['name']}`, hidden words: {' '.join(f'{w:08x}' for w in row['result']['hidden'])}"]
        out += [f"\n`{row['name']}`, {step}: {log}" for step, log in row["result"].items() if step.startswith("log")]
    return out


def value_lines(rows: Rows) -> list[str]:
    counts: Counter[str] = Counter()
    bad = []
    for row in rows:
        who = row["name"].split("/")[0] if "/" in row["name"] else "all"
        right = row["result"].get("right", row["result"].get("same"))
        counts[f"{who}: {'right' if right else 'failed' if error(row) else 'different'}"] += 1
        if not right:
            bad.append(f"- {row['name']}: {error(row) or {k: v for k, v in row['result'].items() if k in ('worst', 'code')}}")
    return [", ".join(f"{key} {count}" for key, count in sorted(counts.items())) + ".", "", *bad[:60],
            *([f"- and {len(bad) - 60} more"] if len(bad) > 60 else [])]


def speed_lines(rows: Rows) -> list[str]:
    out = ["| measured | median µs | rate |", "|---|---|---|"]
    for row in rows:
        result = row["result"]
        out.append(f"| {row['name']} | {error(row)} | |" if error(row) else
                   f"| {row['name']} | {result['microseconds']:.1f} | {result['rate']:.0f} {result['unit']} |")
    return out


def latency_lines(rows: Rows) -> list[str]:
    return ["| measured | cycles |", "|---|---|",
            *(f"| {row['name']} | {error(row) or format(row['result']['cycles'], '.1f')} |" for row in rows)]


def other_lines(rows: Rows) -> list[str]:
    return [f"- {row['name']}: " + (error(row) or ", ".join(
        f"{k} {v}" for k, v in row["result"].items() if k not in ("rows", "outputs"))) for row in rows]


def tensor_map(given: dict[str, Any]) -> TensorMap:
    """The project's map of the sweep's values, which are those of cuTensorMapEncodeTiled."""
    swizzle, atomicity = ((0, 0), (32, 0), (64, 0), (128, 0), (128, 1), (128, 2), (128, 3))[given["swizzle"]]
    return TensorMap(given["address"], DRIVER_TYPES[given["type"]], tuple(given["dims"]), tuple(given["strides"]),
                     tuple(given["box"]), tuple(given["steps"]), interleave=(0, 16, 32)[given["interleave"]], swizzle=swizzle,
                     atomicity=ATOMICITIES[atomicity], promotion=PROMOTIONS[given["promotion"]], nan_fill=bool(given["fill"]))


def encode_lines(rows: Rows) -> list[str]:
    """The driver's bytes against those of `tileiras.layout.tensormap`."""
    counts: Counter[str] = Counter()
    differing = 0
    for given, code, made in (r for row in rows for r in row["result"].get("rows", ())):
        try:
            ours = tensor_map(given).encode()
        except (TensorMapError, IndexError):
            ours = None
        if code or ours is None:
            counts["refused by both" if code and ours is None else "refused by the driver only" if code else
                   "refused by tileiras only"] += 1
            continue
        bits = int.from_bytes(ours, "little") ^ int.from_bytes(bytes.fromhex(made), "little")
        counts["different" if bits else "the same"] += 1
        differing |= bits
    where = ", ".join(f"{bit // 32}.{bit % 32}" for bit in range(1024) if differing >> bit & 1)
    return [*(f"- {row['name']}: {error(row)}" for row in rows if error(row)),
            ", ".join(f"{key} {count}" for key, count in sorted(counts.items())) + ".",
            *([f"Differing bits (word.bit): {where}."] if where else [])]


def render(report: dict[str, Any], evidence: str) -> str:
    """The answers as Markdown. `evidence` names the results file."""
    machine = report.get("machine")
    out = [BEGIN, "## What a run found"]
    if machine:
        out += [f"{report['date']}, {machine['gpu']}, driver {machine['driver']}, {machine['sms']} SMs, tileiras "
                f"{report['tileiras']}. Evidence: `{evidence}`, by `bench/hardware/run.py`."]
    else:
        out += ["No GPU has run this yet."]
    kinds = {"launch": launch_lines, "product": value_lines, "case": value_lines, "device_map": value_lines,
             "speed": speed_lines, "copy": speed_lines, "torch_matmul": speed_lines, "latency": latency_lines,
             "encode": encode_lines}
    for question, title in TITLES.items() if machine else ():
        rows = [row for row in report["results"] if row["question"] == question]
        out += ["", f"### {question}. {title}"]
        if not rows or all(error(row) == "not run" for row in rows):
            out.append("Not run.")
        else:
            out += kinds.get(rows[0]["kind"], other_lines)(rows)
    return "\n".join([*out, END])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hardware.report", description=str(__doc__).splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    try:
        text = render(json.loads(options.results.read_text()), options.results.name)
    except (OSError, ValueError) as problem:
        print(f"cannot read {options.results}: {problem}", file=sys.stderr)
        return 2
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
