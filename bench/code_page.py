"""docs/code.md: what the suite's code costs beside what it cost before layouts were chosen by cost. `python -m bench.code_page`

From three tables in bench/results: code-before.json and code-after.json (`bench.code_table`), code-cycles.json
(`bench.code_cycles`). A case that is worse in a count on some SM has a row: what it pays, what it gets for it, and whether it
is slower.
"""
from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from bench import code_cycles, code_table
from bench.__main__ import ROOT
from bench.code_table import COLUMNS, TARGETS, Row
from bench.speed.compare import mean as geometric_mean
from bench.speed.page import table as markdown
from tests.kernels import runner

PAGE = ROOT / "docs" / "code.md"
WANTED_SHARE, WANTED_MEAN = 98.0, 0.95
"""What was asked for: at most as before for so many percent of SASS, passes and sectors, and this geometric mean."""
MEAN_WANTED = ("sass", "passes", "sectors")
SLOWER = 1.02
"""Above this a case counts as slower: less is within what ptxas' order of instructions does by chance."""
FEW = 0.99
"""Below this share of before a count is named as gained."""
WORDS = {"sass": "instructions", "passes": "shared passes", "executed": "executed instructions", "shared": "shared bytes"}

REGISTERS = ("a thread holds more at a time: what went through shared memory, or came by several accesses, stays in registers; or "
             "ptxas takes a few more for its order of instructions")
"""Why a case pays that pays registers only."""
REASONS = (
    (r"^(control_while_tile_condition|memory_raw_offsets)",
     "small blocks with long work get more warps, for time; they meet where one warp didn't have to"),
    (r"^misc_hint_num_ctas", "the hint for clusters is followed now: each of two CTAs loads for its half of the product"),
    (r"^(matmul_|gemm_e4m3_f32|gemm_f16_f32_128|gemm_bf16_f32_256)",
     "few warps with large parts of the sums read less of the operands from shared memory, in longer code (sm_80)"),
    (r"^(memory_slice_store|control_)",
     "ptxas unrolls a loop whose body has become short, or goes around a load by a branch: longer text, of which as much is "
     "executed, or less"),
    (r"^scan_cumsum_long_rows",
     "each thread has long pieces of rows, so that a scan takes fewer steps; L1 has what the next access reads"),
    (r"^(memory_|transpose_by_store|shape_transpose|shape_permute|permute_)",
     "threads hold the tile so that both memory accesses are coalesced, and turn it through shared memory or in registers: a "
     "wait more in a launch of one block, fewer sectors in all"),
    (r"^(reduce_|scan_|softmax_|cross_entropy|kl_|layer_norm|rms_norm|add_rms|group_norm|quantize_|log_softmax|histogram|argmax|gated_|moe_route|"
     r"misc_nibbles|shape_broadcast)",
     "each warp has rows of its own, so that no two share a sum: an access then touches parts of more sectors, which L1 has "
     "from the access before (a sector counts once an access), or a tile changes its layout once instead of at each use"),
    (r"^attention_", "tiles that had a buffer of their own wait in registers, or share one: less shared memory for more registers"),
    (r"^misc_assert", "an assertion that fails says in which tile block and for which element"),
    (r"(gemm|matmul|mxfp|nvfp|conv|moe_expert|retention|misc_hint|fft_|block_sparse)",
     "an operand or a result goes through shared memory in a layout of its own, so that memory is accessed by 16 bytes: for fewer "
     "sectors, passes of its own, and a barrier more behind the loop where the buffer lies where operands did (each warp turns its "
     "own part, so that there is none between its writes and its reads)"),
    (r"^atomic_", "one fence in front of and behind all of a tile's atomics instead of the ordering on each"),
)
"""Pattern of cases -> why they pay."""


def reason_of(case: str, pays: set[str]) -> str:
    """Why a case pays in these columns, "" where nobody has said."""
    if pays == {"registers"}:
        return REGISTERS
    return next((text for pattern, text in REASONS if re.search(pattern, case)), "")


def _change(before: Row, after: Row, column: str) -> str:
    return f"{WORDS.get(column, column)} {before[column]} → {after[column]}"


def gained(before: Row, after: Row) -> list[str]:
    """The counts that are clearly lower than before."""
    return [_change(before, after, k) for k in COLUMNS if after[k] < FEW * before[k]]


def outside(pairs: list[tuple[Row, Row]], cycles: dict[tuple[str, int], dict[str, Any]]) -> dict[str, list[list[str]]]:
    """Reason -> a row for each case that is worse in a count: case, SMs, what it pays, what it gets, cycles; of its dearest SM."""
    cases: dict[str, list[tuple[Row, Row]]] = {}
    for before, after in pairs:
        if any(after[k] > before[k] for k in TARGETS):
            cases.setdefault(after["case"], []).append((before, after))
    groups: dict[str, list[list[str]]] = {}
    for case, found in cases.items():
        before, after = max(found, key=lambda p: max(code_table.ratio(p[0][k], p[1][k]) for k in TARGETS))
        known = [t for _, a in found if (t := cycles.get((case, a["sm"]))) and t["before"] and t["after"]]
        times = [f"{t['after'] / t['before']:.2f}{' (older)' if t.get('older') else ''}" for t in known]
        pays = {k for b, a in found for k in TARGETS if a[k] > b[k]}
        groups.setdefault(reason_of(case, pays), []).append([
            f"`{case}`", " ".join(str(a["sm"]) for _, a in found),
            "; ".join(_change(before, after, k) for k in TARGETS if after[k] > before[k]), "; ".join(gained(before, after)) or "—",
            " ".join(times) or "not predicted"])
    return groups


def drawn_from(pairs: list[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """The rows that were measured whatever they are, where others were measured because they had been worse before."""
    return [p for p in pairs if p[1].get("drawn")] or pairs


def summary(pairs: list[tuple[Row, Row]], cycles: dict[tuple[str, int], dict[str, Any]]) -> str:
    """The table of all columns: whether the aim is met, by how much it isn't, and how much slower the rows are that are worse."""
    lines = []
    for column, better, equal, worse, share, mean in code_table.summary(drawn_from(pairs)):
        met = ""
        if column in TARGETS:
            lacks = [f"{WANTED_SHARE - have:.1f} points"] if (have := float(share.split()[0])) < WANTED_SHARE else []
            if column in MEAN_WANTED and float(mean) > WANTED_MEAN:
                lacks.append(f"{float(mean) - WANTED_MEAN:.3f} of the mean")
            met = "no: lacks " + ", ".join(lacks) if lacks else "yes"
        times = [t["after"] / t["before"] for b, a in pairs if a[column] > b[column]
                 and (t := cycles.get((a["case"], a["sm"]))) and t["before"] and t["after"]]
        lines.append([WORDS.get(column, column), better, equal, worse, share, mean, met,
                      f"{geometric_mean(times):.3f} ({len(times)})" if times else ""])
    return markdown(["count", "better", "equal", "worse", "at most as before", "geometric mean", "as asked", "cycles where worse"],
                    lines)


def _of_drawn(ratios: list[float]) -> str:
    """What is said of cases that were drawn whatever their counts."""
    if not ratios:
        return ""
    slow = sum(r > SLOWER for r in ratios)
    return (f" Of {len(ratios)} drawn at regular distances from the whole suite the geometric mean\n"
            f"is {geometric_mean(ratios):.3f}; {sum(r < 2 - SLOWER for r in ratios)} are quicker by more than 2 %, {slow} slower.")


def page(before: list[Row], after: list[Row], cycles: dict[tuple[str, int], dict[str, Any]], commit: str = "") -> str:
    """The text of docs/code.md."""
    pairs = code_table.pairs_of(before, after)
    groups = outside(pairs, cycles)
    worse = {(a["case"], a["sm"]) for b, a in pairs if any(a[k] > b[k] for k in TARGETS)}
    ratios = {key: t["after"] / t["before"] for key, t in cycles.items() if key in worse and t["before"] and t["after"]}
    drawn = [t["after"] / t["before"] for t in cycles.values() if t.get("drawn") and t["before"] and t["after"]]
    older = sum(bool(cycles[key].get("older")) for key in ratios)
    since = f" ({older} with code older than the table's: \"older\")" if older else ""
    slower = {case for (case, _), r in ratios.items() if r > SLOWER}
    measured = ", ".join(f"{sum(a['sm'] == sm for _, a in pairs)} on sm_{sm}" for sm in sorted({a["sm"] for _, a in pairs}))
    wrong = [f"`{a['case']}` on sm_{a['sm']}" for _, a in pairs if a.get("ok") is False]
    picked = drawn_from(pairs)
    some = "" if len(picked) == len(pairs) else f"; the table is of the {len(picked)} that were drawn at regular distances, the " \
        "others were measured besides"
    of = f", the compiler of commit {commit}" if commit else ""
    parts = [f"""# What the code costs
Written by `python -m bench.code_page` from bench/results: the suite's code at -O3 before layouts were chosen by cost
(code-before.json) and now (code-after.json{of}), without asynchronous code, which trades shared memory
for time. {measured} of {len(runner.cases())} kernels were measured{some}.
Sectors are counted once an access of a warp, whatever L1 holds; passes and
sectors are of the suite's own inputs. `make bench` prints the comparison.

{summary(pairs, cycles)}

Asked for were at most as before for {WANTED_SHARE:g} % of the kernels, and a geometric mean of {WANTED_MEAN:g} for instructions,
shared passes and sectors. The last column is of rows that are worse in the count and were predicted: cycles now over cycles
before, and how many rows. {"All kernels compute right." if not wrong else "Wrong: " + ", ".join(wrong) + "."}

## What is worse, and why
The judge of a choice is time, not a count. So the rows that are worse in a count were predicted (`python -m bench.code_cycles`,
on A100, H100, RTX 5090; the suite's small launches, where latency is most of it): cycles now over cycles before, for each SM of
the row that was predicted. Of {len(worse)} rows that are worse in a count {len(ratios)} were predicted{since}; of these
{sum(r <= SLOWER for r in ratios.values())} aren't slower.{_of_drawn(drawn)}"""]
    head = ["kernel", "SMs", "pays", "gets", "cycles"]
    for reason, group in sorted(groups.items(), key=lambda item: (item[0] == "", -len(item[1]))):
        title = reason[0].upper() + reason[1:] + "." if reason else "Other causes: a few registers or instructions by the order " \
            "in which ptxas finds them."
        parts.append(f"{title}\n\n{markdown(head, group)}")
    parts.append("Slower by more than 2 %: " + (", ".join(f"`{case}`" for case in sorted(slower)) if slower else "none") + ".")
    return "\n\n".join(parts) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.code_page", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--commit", default="", help="whose compiler's code code-after.json is of, to be named")
    a = parser.parse_args(argv)
    before, after = (code_table.load(code_cycles.RESULTS / f"code-{when}.json") for when in ("before", "after"))
    digests = {(r["case"], r["sm"]): r.get("ptx") for r in after}
    cycles = {key: {**t, "older": digests.get(key) != t["ptx"]} for key, t in code_cycles.load().items()}
    PAGE.write_text(page(before, after, cycles, a.commit))
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
