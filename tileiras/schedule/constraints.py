"""What attributes on ops ask of their schedule.

    tileas.schedule.constraint.gid                      the op's group: ops of one group share a stage (SameDepth)
    tileas.schedule.constraint.leader_gid               its group is one with this group
    tileas.schedule.constraint.max_depth                the last stage that it may have (MaxDepth)
    tileas.schedule.constraint.force_serial_execution   the loop keeps the program's order (ForceSerial)

An attribute that is missing asks for nothing: a group's leader is then itself, its depth unbounded. An op's property counts
before an attribute of the same name.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation

PREFIX = "tileas.schedule.constraint."
GID, LEADER, MAX_DEPTH, FORCE_SERIAL = (PREFIX + n for n in ("gid", "leader_gid", "max_depth", "force_serial_execution"))


@dataclass
class Constraints:
    """By number of op. `group`: a number that ops of one group share."""

    group: dict[int, int] = field(default_factory=dict)
    max_depth: dict[int, int] = field(default_factory=dict)
    serial: bool = False

    def __bool__(self) -> bool:
        return self.serial or bool(self.group) or bool(self.max_depth)


def number(op: Operation, name: str) -> int | None:
    """The value of an integer attribute of an op, inherent or discardable."""
    attr: Any = op.properties.get(name, op.attributes.get(name))
    if attr is None:
        return None
    value = getattr(attr, "value", attr)
    data = getattr(value, "data", None)
    return data if isinstance(data, int) else None


def constraints_of(ops: Sequence[Operation]) -> Constraints:
    """What these ops ask for."""
    out = Constraints()
    parent: dict[int, int] = {}

    def find(g: int) -> int:
        root = g
        while parent.setdefault(root, root) != root:
            root = parent[root]
        while parent[g] != root:
            parent[g], g = root, parent[g]
        return root

    gids: dict[int, int] = {}
    for i, op in enumerate(ops):
        if not op.attributes and not any(k.startswith(PREFIX) for k in op.properties):
            continue
        if FORCE_SERIAL in op.attributes or FORCE_SERIAL in op.properties:
            out.serial = True
        depth = number(op, MAX_DEPTH)
        if depth is not None:
            out.max_depth[i] = max(0, depth)
        gid = number(op, GID)
        leader = number(op, LEADER)
        if gid is None:
            gid = leader
        if gid is not None:
            gids[i] = gid
            parent[find(gid)] = find(gid if leader is None else leader)
    out.group = {i: find(g) for i, g in gids.items()}
    return out
