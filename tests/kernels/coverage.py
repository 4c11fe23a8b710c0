"""How much of the kernel suite works: every case and its aligned twin at every level on every SM, compiled, simulated,
interpreted, judged.

    python -m tests.kernels.coverage                            # all cases and twins, -O0 and -O3, eleven SMs, two processes
    python -m tests.kernels.coverage --only twins --every 20    # a sample of the twins
    python -m tests.kernels.coverage -k 'softmax|matmul' --sms 90 --opt 3
    python -m tests.kernels.coverage --failed                   # again what failed last time
    python -m tests.kernels.coverage --no-sim --no-interp       # does ptxas take it?
    python -m tests.kernels.coverage --report                   # run nothing, print what is known

Steps of one case: `interp`; for each level and SM `compile` (which ends with ptxas); for sm_80, sm_90 and sm_120 `sim`.
Code with
asynchronous instructions is simulated under five orders of what they do. PTX that differs from what was simulated already in
nothing but its target has the result of that. What an SM can't do
by definition (the compiler says "needs sm_90 or newer") counts neither as passed nor as failed, and is listed. Every
result goes to build/coverage.jsonl as it comes, with a fingerprint of the compiler's sources: an interrupted run goes
on where it stopped, and a changed compiler starts anew (`--keep` trusts passes of older sources, `--fresh` nothing).
A case that hangs or dies costs its own step only. Failures are grouped by what went wrong, not by where.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.kernels import runner, twins
from tests.ptx import body_of, copies_of, is_asynchronous, products_of

SMS = (75, 80, 86, 89, 90, 100, 103, 107, 110, 120, 121)
SIMULATED = (80, 90, 120)
LEVELS = (0, 3)
CACHE = runner.BUILD / "coverage.jsonl"
PASS, FAIL, SKIP, EXCEPTED = "pass", "fail", "skip", "excepted"
PRODUCT_OPS = {"cuda_tile.mmaf", "cuda_tile.mmai", "cuda_tile.mmaf_scaled"}
BY_DEFINITION = re.compile(r"needs (sm_\d+) or newer")
"""How the compiler says that no program for this SM can do it."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One thing to try. `level` and `sm` are -1 for the interpreter."""

    case: str
    kind: str           # "interp", "compile" or "sim"
    level: int = -1
    sm: int = -1

    @property
    def key(self) -> str:
        return f"{self.case}/{self.kind}" + (f"/O{self.level}/sm_{self.sm}" if self.sm >= 0 else "")


# ---------------------------------------------------------------------------------------------------------------------
# The work, in a process of its own.

def explain(error: BaseException) -> str:
    """One line: the exception, and for those that no user should see the innermost line of the project."""
    from tileiras.errors import TileirasError
    text = str(error).strip() or type(error).__name__
    if isinstance(error, TileirasError):
        return text
    where = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if f"{os.sep}tileiras{os.sep}" in frame.filename:
            where = f" @ {frame.filename.rsplit(os.sep + 'tileiras' + os.sep, 1)[1]}:{frame.lineno} {frame.name}"
            break
    return f"{type(error).__name__}: {text}{where}"


def structure(step: Step, ptx: str) -> dict[str, Any]:
    """How the compiled code copies and multiplies, and of how many stages and agents it is."""
    products = products_of(ptx)
    if not products and PRODUCT_OPS & set(runner.ops_of(step.case)):
        products = ["FMA"]
    facts: dict[str, Any] = {"copies": copies_of(ptx) or ["plain"], "products": products,
                             "asynchronous": is_asynchronous(ptx)}
    if facts["asynchronous"]:
        found = runner.structure_of(step.case, f"sm_{step.sm}", step.level)
        facts |= {"rings": list(found.rings), "agents": found.agents}
    return facts


def run_step(step: Step, compiled: dict[tuple[int, int], Any], simulated: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Run one step; `compiled` hands what `compile` made to `sim`, and `simulated` has what became of the case's codes."""
    if step.kind == "interp":
        verdict = runner.interpret_case(step.case)
        return {"worst": verdict.worst, "max_abs": verdict.max_abs, "detail": verdict.detail, "ok": verdict.ok}
    if step.kind == "compile":
        compiled.clear()
        module = runner.compile_case(step.case, f"sm_{step.sm}", step.level)
        compiled[step.level, step.sm] = module
        facts: dict[str, Any] = {"ok": bool(module.cubin), **structure(step, module.ptx)}
        for entry in module.entries[:1]:
            facts |= {"registers": entry.registers, "spills": entry.spill_stores + entry.spill_loads,
                      "shared": entry.shared_bytes}
        return facts
    module = compiled.get((step.level, step.sm)) or runner.compile_case(step.case, f"sm_{step.sm}", step.level)
    body = body_of(module.ptx)
    if body in simulated:
        return {**simulated[body], "same": True}
    verdict = runner.simulate_case(step.case, module)
    simulated[body] = {"worst": verdict.worst, "max_abs": verdict.max_abs, "detail": verdict.detail, "ok": verdict.ok}
    return dict(simulated[body])


def work(pipe: multiprocessing.connection.Connection) -> None:
    """Take lists of steps of one case from the pipe; answer (index, result) for each, then None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TILEIRAS_STRICT"] = "1"     # what fails isn't compiled again without what failed
    sys.stdout = open(os.devnull, "w")      # kernels may print
    with contextlib.suppress(EOFError, BrokenPipeError):
        while (steps := pipe.recv()) is not None:
            compiled: dict[tuple[int, int], Any] = {}
            simulated: dict[str, dict[str, Any]] = {}
            refused: dict[tuple[int, int], str] = {}
            for index, step in enumerate(steps):
                start = time.perf_counter()
                try:
                    if step.kind == "sim" and (step.level, step.sm) in refused:
                        result: dict[str, Any] = {"status": refused[step.level, step.sm]}
                    else:
                        result = run_step(step, compiled, simulated)
                        result["status"] = PASS if result.pop("ok") else FAIL
                        if result["status"] == FAIL:
                            result["error"] = "wrong result: " + (result["detail"] or "differs from the reference")
                except Exception as error:
                    text = explain(error)[:2000]
                    cannot = step.kind == "compile" and BY_DEFINITION.search(text)
                    result = {"status": EXCEPTED if cannot else FAIL, "error": text}
                    if step.kind == "compile":
                        refused[step.level, step.sm] = EXCEPTED if cannot else SKIP
                result["seconds"] = round(time.perf_counter() - start, 3)
                pipe.send((index, result))
            pipe.send(None)


class Worker:
    """A process that runs one case at a time, and can be replaced when it hangs."""

    def __init__(self, body: Callable[[Any], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=body, args=(theirs,), daemon=False)
        self.process.start()
        theirs.close()
        self.steps: list[Step] = []
        self.next = 0
        self.deadline = 0.0

    def give(self, steps: list[Step], timeout: float) -> None:
        self.steps, self.next, self.deadline = steps, 0, time.monotonic() + timeout
        self.pipe.send(steps)

    def stop(self, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        else:
            with contextlib.suppress(OSError):
                self.pipe.send(None)
        self.process.join(10)
        self.pipe.close()


def execute(plan: list[list[Step]], jobs: int, timeout: float, warm_up: float = 20.0,
            body: Callable[[Any], None] = work) -> Iterator[tuple[Step, dict[str, Any]]]:
    """Run lists of steps, one list a case, and give results as they come. `timeout` is for one step, in seconds; the
    first step of a list may take `warm_up` more, for imports and export."""
    queue = collections.deque(plan)
    workers = [Worker(body) for _ in range(min(jobs, len(plan)))]
    busy: list[Worker] = []
    idle = list(workers)
    try:
        while queue or busy:
            while queue and idle:
                worker = idle.pop()
                worker.give(queue.popleft(), timeout + warm_up)
                busy.append(worker)
            multiprocessing.connection.wait([w.pipe for w in busy], timeout=1.0)
            for worker in list(busy):
                dead = ""
                try:
                    while worker.pipe.poll():
                        answer = worker.pipe.recv()
                        if answer is None:
                            busy.remove(worker)
                            idle.append(worker)
                            break
                        index, result = answer
                        worker.next, worker.deadline = index + 1, time.monotonic() + timeout
                        yield worker.steps[index], result
                except (EOFError, OSError):
                    worker.process.join(5)
                    dead = f"the process died (exit code {worker.process.exitcode})"
                if worker in busy and not dead and time.monotonic() > worker.deadline:
                    dead = f"timeout: no answer within {timeout:g} s"
                if dead:
                    busy.remove(worker)
                    worker.stop(kill=True)
                    if worker.next < len(worker.steps):
                        yield worker.steps[worker.next], {"status": FAIL, "error": dead}
                        if rest := worker.steps[worker.next + 1:]:
                            queue.appendleft(rest)
                    idle.append(Worker(body))
    finally:
        for worker in idle:
            worker.stop()
        for worker in busy:
            worker.stop(kill=True)


# ---------------------------------------------------------------------------------------------------------------------
# Results, kept from run to run.

def fingerprint() -> str:
    """Of the compiler's sources and the suite's: results of other sources don't count."""
    digest = hashlib.sha256()
    for folder in (runner.ROOT / "tileiras", runner.ROOT / "tests" / "kernels"):
        for path in sorted(folder.rglob("*.py")):
            if path != pathlib.Path(__file__):
                digest.update(str(path.relative_to(runner.ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def load_results() -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    if CACHE.exists():
        for line in CACHE.read_text().splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                results[record["key"]] = record
    return results


def save_results(results: dict[str, dict[str, Any]]) -> None:
    text = "".join(json.dumps(r, allow_nan=True) + "\n" for r in results.values())
    runner.write_atomically(CACHE, text.encode())


# ---------------------------------------------------------------------------------------------------------------------
# The plan and the report.

def steps_of(case: str, sms: Iterable[int], levels: Iterable[int], simulated: Iterable[int],
             interp: bool) -> list[Step]:
    steps = [Step(case, "interp")] if interp else []
    for level in levels:
        for sm in sms:
            steps.append(Step(case, "compile", level, sm))
            if sm in simulated:
                steps.append(Step(case, "sim", level, sm))
    return steps


def group_key(kind: str, error: str) -> str:
    """What went wrong, without names, numbers and places that differ from case to case."""
    lines = [line.strip() for line in error.splitlines() if line.strip()] or ["no message"]
    text = lines[0]
    if text.endswith(":") and len(lines) > 1:                   # a tool's own words follow
        text += " " + next((line for line in lines[1:] if "error" in line.lower() or "fatal" in line.lower()), lines[1])
    if text.startswith("wrong result"):
        if "never written" in text:
            text = "wrong result: elements never written"
        elif "got nan" in text:
            text = "wrong result: NaN where a number is expected"
        else:
            text = "wrong result: values differ"
    text, at, place = text.partition(" @ ")
    text = re.sub(r"/[\w./-]*/", "", text)
    text = re.sub(r"loc\([^)]*\)| \(kernel .*", "", text)
    text = re.sub(r"(unsupported instruction: \w+)\S*", r"\1", text)
    text = re.sub(r"%[\w.$-]+", "%x", text)
    text = re.sub(r"0x[0-9a-fA-F]+", "N", text)
    text = re.sub(r"\b\d+(x\d+)*x(?=[a-z])", "NxNx", text)      # the shape of a tile, not its type
    text = re.sub(r"(?<!\w)-?\d+(\.\d+)?(e[+-]?\d+)?", "N", text)
    return f"{kind}: {text[:220]}{at}{place}"


def print_groups(failures: list[tuple[Step, str]], out: Any = sys.stdout, show: int = 3, limit: int = 60) -> None:
    """Failures by kind of error, the most cases first, each with cases to try."""
    groups: dict[str, list[tuple[Step, str]]] = collections.defaultdict(list)
    for step, error in failures:
        groups[group_key(step.kind, error)].append((step, error))

    def size(item: tuple[str, list[tuple[Step, str]]]) -> tuple[int, int, str]:
        return -len({s.case for s, _ in item[1]}), -len(item[1]), item[0]

    for rank, (key, members) in enumerate(sorted(groups.items(), key=size)):
        if rank == limit:
            print(f"... and {len(groups) - limit} groups more", file=out)
            break
        names = list(dict.fromkeys(s.case for s, _ in members))
        where: dict[int, list[str]] = {}
        for level, sm in sorted({(s.level, s.sm) for s, _ in members}):
            where.setdefault(level, []).append(str(sm))
        places = "" if -1 in where else " at " + " ".join(f"O{level}:{','.join(sms)}" for level, sms in where.items())
        print(f"\n[{len(names)} cases, {len(members)} steps{places}] {key}", file=out)
        example = members[0][1].strip().splitlines()
        if example:
            print(f"    e.g. {members[0][0].key}: " + " | ".join(example[:2])[:300], file=out)
        print("    " + " ".join(names[:show * 4]) + (" ..." if len(names) > show * 4 else ""), file=out)


def tally(results: dict[str, dict[str, Any]], steps: Iterable[Step]) -> tuple[int, int]:
    """(steps that pass, steps without those that an SM can't do)"""
    total = good = 0
    for step in steps:
        status = results.get(step.key, {}).get("status")
        total += status != EXCEPTED
        good += status == PASS
    return good, total


def columns(plan: list[list[Step]]) -> list[tuple[str, Any]]:
    """The columns of the tables: title, and which steps count there."""
    found: list[tuple[str, Any]] = []
    if any(s.kind == "interp" for steps in plan for s in steps):
        found.append(("interpreter", lambda s: s.kind == "interp"))
    for level in sorted({s.level for steps in plan for s in steps if s.level >= 0}):
        found.append((f"compiled -O{level}", lambda s, level=level: (s.kind, s.level) == ("compile", level)))
        for sm in sorted({s.sm for steps in plan for s in steps if s.kind == "sim"}):
            found.append((f"simulated -O{level} sm_{sm}",
                          lambda s, level=level, sm=sm: (s.kind, s.level, s.sm) == ("sim", level, sm)))
    return found


def shares(results: dict[str, dict[str, Any]], chosen: list[list[Step]], heads: list[tuple[str, Any]]) -> list[str]:
    """A cell `passed/all` for each column."""
    cells = []
    for _, counts in heads:
        good, total = tally(results, (s for steps in chosen for s in steps if counts(s)))
        cells.append(f"{good}/{total}" if total else "")
    return cells


def table_row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(c) for c in cells) + " |"


def print_summary(results: dict[str, dict[str, Any]], plan: list[list[Step]], out: Any = sys.stdout) -> None:
    whole = sum((t := tally(results, steps))[0] == t[1] for steps in plan)
    print(f"\n{whole} of {len(plan)} cases pass in every step", file=out)
    rows = [("interpreter", [s for steps in plan for s in steps if s.kind == "interp"])]
    pairs = sorted({(s.kind, s.level, s.sm) for steps in plan for s in steps if s.kind != "interp"})
    for kind, level, sm in pairs:
        rows.append((f"{kind} -O{level} sm_{sm}",
                     [s for steps in plan for s in steps if (s.kind, s.level, s.sm) == (kind, level, sm)]))
    for title, steps in rows:
        if steps:
            good, total = tally(results, steps)
            print(f"  {title:24} {good:4} of {total}", file=out)


def reason_of(results: dict[str, dict[str, Any]], steps: list[Step]) -> str:
    """Why a case fails: its first two kinds of error."""
    reasons = list(dict.fromkeys(group_key(s.kind, results[s.key].get("error", "")) for s in steps
                                 if results.get(s.key, {}).get("status") == FAIL))
    return "; ".join(reasons[:2])[:300].replace("|", "\\|") or "not run"


def markdown(results: dict[str, dict[str, Any]], plan: list[list[Step]]) -> str:
    """docs/coverage.md: totals, then every case, with a reason where something fails."""
    heads = columns(plan)
    titles = [title for title, _ in heads]
    complete = {steps[0].case for steps in plan if (t := tally(results, steps))[0] == t[1]}
    used = sorted({s.sm for steps in plan for s in steps if s.sm >= 0})
    sims = sorted({s.sm for steps in plan for s in steps if s.kind == "sim"})
    top = max((s.level for steps in plan for s in steps), default=3)

    def total(title: str, chosen: list[list[Step]]) -> str:
        return table_row([title, len(chosen), sum(steps[0].case in complete for steps in chosen),
                          *shares(results, chosen, heads)])

    own = [steps for steps in plan if not steps[0].case.endswith(twins.SUFFIX)]
    second = [steps for steps in plan if steps[0].case.endswith(twins.SUFFIX)]
    lines = [
        "# Coverage of the kernel suite",
        "Written by `make coverage`. Every case of `tests/kernels`, and its twin on aligned arrays with loops of several ring "
        "depths (`tests/kernels/twins.py`), is compiled at every level below for "
        + ", ".join(f"sm_{sm}" for sm in used) + " (`ptxas` has the last word), simulated for "
        + ", ".join(f"sm_{sm}" for sm in sims) + " (code that differs from code already run in nothing but its target isn't run "
        "again; code with asynchronous instructions is run under five orders), and run in the interpreter. A run passes where "
        "every output lies within the case's tolerance of its NumPy reference.",
        "",
        table_row(["", "count", "all steps pass", *titles]),
        "|" + "---|" * (3 + len(titles)),
        *(total(title, chosen) for title, chosen in (("cases", own), ("twins", second)) if chosen),
        *asynchronous(results, plan, top),
        "",
        "## What fails",
        "",
    ]
    failing = [steps for steps in plan if steps[0].case not in complete]
    if failing:
        lines.append(table_row(["case", *titles, "reason"]))
        lines.append("|" + "---|" * (2 + len(titles)))
        lines += [table_row([steps[0].case, *shares(results, [steps], heads), reason_of(results, steps)])
                  for steps in failing]
    else:
        lines.append("Nothing.")
    lines += exceptions(results, plan)
    lines += ["", "## What passes", "",
              "Worst error of all runs, in tolerances of the case (1 is the bound); registers and spilled bytes at "
              f"-O{top} on sm_90; then, by SM, how memory is copied and products are done, the stages of rings, and how many "
              "agents share the work where it is more than one.", "",
              table_row(["case", "worst error", "registers", "spills", *(f"{what} sm_{sm}" for sm in sims for what in STRUCTURE)]),
              "|" + "---|" * (4 + len(sims) * len(STRUCTURE))]
    for steps in plan:
        if steps[0].case in complete:
            worst = max((results[s.key].get("worst", 0.0) for s in steps), default=0.0)
            facts = results.get(Step(steps[0].case, "compile", top, 90).key, {})
            built = [cell for sm in sims for cell in structure_cells(results.get(Step(steps[0].case, "compile", top, sm).key, {}))]
            lines.append(table_row([steps[0].case, f"{worst:.2g}", facts.get("registers", ""), facts.get("spills", ""), *built]))
    return "\n".join(lines) + "\n"


STRUCTURE = ("copy", "product", "ring", "agents")


def structure_cells(facts: dict[str, Any]) -> list[str]:
    """The cells of one case and SM under STRUCTURE."""
    rings, agents = facts.get("rings", []), facts.get("agents", 1)
    return [", ".join(facts.get("copies", [])), ", ".join(facts.get("products", [])), ", ".join(map(str, rings)),
            str(agents) if agents > 1 else ""]


def asynchronous(results: dict[str, dict[str, Any]], plan: list[list[Step]], top: int) -> list[str]:
    """How many cases and twins do what asynchronously: a row for each SM."""
    rows = []
    for sm in sorted({s.sm for steps in plan for s in steps if s.kind == "compile"}):
        found = [r for steps in plan if (r := results.get(Step(steps[0].case, "compile", top, sm).key, {})).get("status") == PASS]

        def count(holds: Callable[[dict[str, Any]], Any], found: list[dict[str, Any]] = found) -> int:
            return sum(bool(holds(r)) for r in found)
        copies = [count(lambda r, name=name: name in r.get("copies", ())) for name in ("TMA", "cp.async", "plain")]
        products = [count(lambda r, name=name: name in r.get("products", ())) for name in ("wgmma", "tcgen05", "mma.sync", "FMA")]
        rows.append(table_row([f"sm_{sm}", count(lambda r: r.get("asynchronous")), *copies, *products,
                               count(lambda r: max(r.get("rings", [0]), default=0) > 1), count(lambda r: r.get("agents", 1) > 1)]))
    if not rows:
        return []
    return ["", "## What is asynchronous", "",
            f"Cases and twins together, at -O{top}: how many have asynchronous instructions at all; have copies of each kind "
            "(plain: no other); have products of each kind; have a ring of two stages or more; and are split among agents.", "",
            table_row(["SM", "asynchronous", "TMA", "cp.async", "plain", "wgmma", "tcgen05", "mma.sync", "FMA", "ring", "agents"]),
            "|" + "---|" * 11, *rows]


def exceptions(results: dict[str, dict[str, Any]], plan: list[list[Step]]) -> list[str]:
    """What some SMs can't do: a row for each case."""
    rows = []
    for steps in plan:
        refused = [s for s in steps if s.kind == "compile" and results.get(s.key, {}).get("status") == EXCEPTED]
        if refused:
            sms = ", ".join(f"sm_{sm}" for sm in sorted({s.sm for s in refused}))
            reason = results[refused[0].key].get("error", "").splitlines()[0].replace("|", "\\|")
            rows.append(table_row([refused[0].case, sms, reason[:160]]))
    if not rows:
        return []
    return ["", "## What an SM can't do", "", "These count neither as passed nor as failed above.", "",
            table_row(["case", "on", "the compiler's words"]), "|---|---|---|", *rows]


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="coverage", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases by exact name")
    parser.add_argument("-k", "--cases", metavar="REGEX", help="cases whose name the expression is found in")
    parser.add_argument("--only", choices=("cases", "twins"), help="the suite's own cases, or their twins")
    parser.add_argument("--tags", help="cases that have one of these tags (comma separated)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th case only: a quick sample")
    parser.add_argument("--sms", default=",".join(map(str, SMS)), help="e.g. 80,90")
    parser.add_argument("--sim-sms", default=",".join(map(str, SIMULATED)), help="which of them to simulate")
    parser.add_argument("--opt", default=",".join(map(str, LEVELS)), help="levels, e.g. 0,3")
    parser.add_argument("--no-sim", action="store_true")
    parser.add_argument("--no-interp", action="store_true")
    parser.add_argument("--no-compile", action="store_true", help="the interpreter only")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one step")
    parser.add_argument("--limit", type=float, default=0.0, metavar="MINUTES", help="stop after this long")
    parser.add_argument("--failed", action="store_true", help="only steps that failed when last run")
    parser.add_argument("--keep", action="store_true", help="trust passes of older sources")
    parser.add_argument("--fresh", action="store_true", help="forget all earlier results")
    parser.add_argument("--report", action="store_true", help="run nothing; report what is known (of any sources)")
    parser.add_argument("--groups", type=int, default=40, help="how many groups of failures to print")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each failing step as it comes")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="write the table there (docs/coverage.md)")
    return parser.parse_args(argv)


def choose(a: argparse.Namespace) -> list[str]:
    chosen = []
    kinds = {"cases": list(runner.cases()), "twins": twins.names()}
    for name in [name for kind, names in kinds.items() if a.only in (None, kind) for name in names]:
        case = runner.case_of(name)
        if a.names and name not in a.names:
            continue
        if a.cases and not re.search(a.cases, name):
            continue
        if a.tags and not set(a.tags.split(",")) & set(case.tags):
            continue
        chosen.append(name)
    return chosen[::a.every]


def main(argv: list[str] | None = None) -> int:
    a = parse_arguments(argv)
    numbers = {field: [int(n) for n in getattr(a, field).replace("sm_", "").split(",") if n]
               for field in ("sms", "sim_sms", "opt")}
    sms = [] if a.no_compile else numbers["sms"]
    simulated = [] if a.no_sim else numbers["sim_sms"]
    plan = [steps for name in choose(a)
            if (steps := steps_of(name, sms, numbers["opt"], simulated, not a.no_interp))]
    mark = fingerprint()
    results = {} if a.fresh else load_results()

    def settled(step: Step) -> bool:
        old = results.get(step.key)
        if old is None:
            return a.failed
        if a.failed:
            return old["status"] in (PASS, EXCEPTED)
        return old["sources"] == mark or (a.keep and old["status"] == PASS)

    todo = [] if a.report else [rest for steps in plan if (rest := [s for s in steps if not settled(s)])]
    count = sum(map(len, todo))
    if not a.report:
        known = sum(map(len, plan)) - count
        print(f"{len(plan)} cases; {count} steps to run, {known} already known; {a.jobs} processes", flush=True)
    start, done, failed = time.monotonic(), 0, 0
    CACHE.parent.mkdir(exist_ok=True)
    if a.fresh or not CACHE.exists():
        CACHE.write_text("")
    try:
        with CACHE.open("a") as log:
            for step, result in execute(todo, a.jobs, a.timeout) if todo else ():
                record = {"key": step.key, "sources": mark, **result}
                results[step.key] = record
                log.write(json.dumps(record) + "\n")
                log.flush()
                done += 1
                if result["status"] == FAIL:
                    failed += 1
                    if a.verbose:
                        print(f"{step.key}: {result['error'].splitlines()[0][:200]}", flush=True)
                if done % 200 == 0 or (sys.stdout.isatty() and done % 10 == 0):
                    print(f"  {done} of {count} steps, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
                if a.limit and time.monotonic() - start > a.limit * 60:
                    print(f"stopped after {a.limit:g} minutes", flush=True)
                    break
    except KeyboardInterrupt:
        print("interrupted; what ran is kept")
    save_results({**load_results(), **results})
    failures = [(s, results[s.key].get("error", "")) for steps in plan for s in steps
                if results.get(s.key, {}).get("status") == FAIL]
    if failures:
        print_groups(failures, limit=a.groups)
    print_summary(results, plan)
    if done:
        print(f"{done} steps in {time.monotonic() - start:.0f} s")
    if a.write:
        a.write.parent.mkdir(exist_ok=True)
        a.write.write_text(markdown(results, plan))
        print(f"wrote {a.write}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
