"""One warm process of ours: compiles what standard input lists, prints what each took.

Input: JSON `{"jobs": [[bytecode file, gpu name, level], ...], "repeat": n}`. Output: JSON with the median seconds of
each job (null where it failed), and the bytes that the process and its LLVM worker hold after all jobs. A first round
over all jobs warms everything up and isn't counted.
"""
from __future__ import annotations

import json
import pathlib
import statistics
import sys
import time

from bench.memory import now_bytes


def main() -> int:
    import tileiras
    given = json.load(sys.stdin)
    times: list[list[float]] = [[] for _ in given["jobs"]]
    for round_number in range(given["repeat"] + 1):
        for index, (path, gpu_name, level) in enumerate(given["jobs"]):
            data = pathlib.Path(path).read_bytes()
            start = time.perf_counter()
            try:
                tileiras.compile(data, gpu_name=gpu_name, opt_level=level)
            except tileiras.TileirasError:
                continue
            if round_number:
                times[index].append(time.perf_counter() - start)
    own, others = now_bytes()
    json.dump({"seconds": [statistics.median(t) if t else None for t in times],
               "memory": {"process": own, "worker": others}}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
