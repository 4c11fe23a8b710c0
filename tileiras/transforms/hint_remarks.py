"""What became of the hints on loads and stores: `latency` and `allow_tma`.

A remark is made where a hint is first decided on. Who decides otherwise later puts its own in the place of that one: a ring that
was asked for isn't made (`withdraw_latency`), one is made that nobody had planned (`apply_latency`).
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.tma import FORBIDDEN, Refusal
from tileiras.remarks import HINTS, MISSED, PASSED, Remark, remark

IGNORED, APPLIED = "HintIgnored", "HintApplied"


def apply_latency(func: Operation, load: Operation, stages: int, reason: str, remarks: list[Remark]) -> None:
    """The hint on a load, if it has one, decided on the stages of a ring."""
    hint: Any = load.properties.get("latency")
    if hint is None:
        return
    text = f"Hint latency = {hint.value.data}"
    if stages > hint.value.data + 1:
        reason = "with fewer stages the loop would wait for its loads"
    found = remark(func, load, PASSED, HINTS, APPLIED, f"{text} asks for a ring of {hint.value.data + 1} stages",
                   {"Stages": stages}, [reason])
    _drop(found, f"{text} ", remarks)
    remarks.append(found)


def ignore_latency(func: Operation, access: Operation, reason: str, remarks: list[Remark], instead: bool = False) -> None:
    """The hint on an access, if it has one, changes nothing; `instead` of what was said of it before."""
    hint: Any = access.properties.get("latency")
    if hint is not None:
        text = f"Hint latency = {hint.value.data}"
        found = remark(func, access, MISSED, HINTS, IGNORED, f"{text} has no effect", reasons=[reason])
        if instead:
            _drop(found, f"{text} ", remarks)
        remarks.append(found)


def withdraw_latency(func: Operation, op: Operation, reason: str, remarks: list[Remark]) -> None:
    """The ring that the copy `op` fills stays one buffer: the hint of the load that it was has no effect."""
    place = remark(func, op, PASSED, HINTS, APPLIED, "")
    for i, old in enumerate(remarks):
        if old.name == place.name and (old.place, old.function) == (place.place, place.function) and \
                old.text.startswith("Hint latency"):
            text = old.text.split(" asks")[0]
            remarks[i] = remark(func, op, MISSED, HINTS, IGNORED, f"{text} has no effect", reasons=[reason])


def _drop(new: Remark, start: str, remarks: list[Remark]) -> None:
    """Take away what was said of the same hint before."""
    for i, old in enumerate(remarks):
        if (old.place, old.function) == (new.place, new.function) and old.text.startswith(start):
            del remarks[i]
            return


def asked_of_tma(func: Operation) -> list[tuple[Operation, bool]]:
    """The loads and stores that say whether the copy engine may move them, and what they say."""
    found: list[tuple[Operation, bool]] = []
    for op in func.walk():
        hint: Any = op.properties.get("allow_tma")
        if hint is not None:
            found.append((op, bool(hint.value.data)))
    return found


def report_tma(func: Operation, asked: list[tuple[Operation, bool]], refused: dict[Operation, list[Refusal]], absent: str,
               remarks: list[Remark]) -> None:
    """What became of the hints `allow_tma`, when the copy engine's accesses are replaced. `absent`: why there is no copy engine
    here, "" if there is one."""
    for op, allowed in asked:
        text = f"Hint allow_tma = {'true' if allowed else 'false'}"
        why = [refusal.reason for refusal in refused.get(op, [])]
        moved = op.parent is None
        if moved or (not allowed and why == [FORBIDDEN]):
            reason = "the copy engine moves the tile" if moved else "threads move the tile, which the copy engine could"
            remarks.append(remark(func, op, PASSED, HINTS, APPLIED, f"{text} is obeyed", reasons=[reason]))
            continue
        if absent:
            reason = absent
        elif why:
            reason = "the copy engine can't move the tile; RemarkMemoryTma" \
                     f"{'Load' if op.name.endswith('load') else 'Store'}Failed says why"
        else:
            reason = "threads move the tile in fewer issue slots; RemarkMemoryEngineByCost says in how many"
        remarks.append(remark(func, op, MISSED, HINTS, IGNORED, f"{text} has no effect", reasons=[reason]))
