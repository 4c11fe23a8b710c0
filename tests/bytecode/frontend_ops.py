"""Every op that the public frontend can encode, each once, with arguments that differ from each other.

The frontend's own encoder (`cuda.tile._bytecode`) writes the file, by the annotations of its functions; what was asked
of it is kept beside, for a test to compare with what our reader finds.
"""
from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, get_args, get_origin

NOT_IN_BODIES = {"Module", "Entry", "Global"}
REGION_COUNTS = {"If": 2}
NOT_IN_BOUNDS = (False, False)


@dataclass
class Written:
    """One op as the frontend was asked to write it: name as the encoder's, arguments by parameter name."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    regions: int = 0


def version_of(text: str) -> Any:
    import cuda.tile._bytecode as bc

    return bc.BytecodeVersion[f"V_{text.replace('.', '_')}"]


def encoders() -> dict[str, Any]:
    """Op name without `Op` -> the frontend's function."""
    from cuda.tile._bytecode import encodings

    found = {name[len("encode_"):-len("Op")]: getattr(encodings, name) for name in dir(encodings)
             if name.startswith("encode_") and name.endswith("Op")}
    return {name: function for name, function in found.items() if name not in NOT_IN_BODIES}


def since(function: Any) -> str:
    """The version that the encoder's first line names."""
    first = inspect.getsource(function).split("\n", 1)[0]
    if "preview" in first:
        return "preview"
    return first.rsplit("since ", 1)[1].strip() if "since" in first else "13.1"


class Writer:
    """Writes one file with one function that holds the ops."""

    def __init__(self, version: str, present: bool) -> None:
        self.version = version
        self.present = present
        self.written: list[Written] = []

    def write(self) -> bytes:
        import cuda.tile._bytecode as bc

        buffer = bytearray()
        with bc.write_bytecode(1, buffer, version_of(self.version)) as writer:
            types = writer.type_table
            self.i32 = types.tile(types.I32, ())
            self.token = types.Token
            with writer.function("every_op", [self.i32] * 8, [], True, {}, bc.MISSING_DEBUG_ATTR_ID) as (code, params):
                self.params = itertools.cycle(params)
                self.types = types
                for name, function in encoders().items():
                    if since(function) > self.version or name in ("Break", "Continue", "Yield", "Return"):
                        continue
                    self._op(code, name, function)
                bc.encode_ReturnOp(code, ())
        return bytes(buffer)

    def _op(self, code: Any, name: str, function: Any) -> None:
        import cuda.tile._bytecode as bc

        op = Written(name)
        for number, (parameter, spec) in enumerate(list(inspect.signature(function).parameters.items())[1:]):
            op.arguments[parameter] = self._argument(name, parameter, spec.annotation, number)
        result = function(code, **op.arguments)
        self.written.append(op)
        if hasattr(result, "new_block"):
            op.regions = REGION_COUNTS.get(name, 1)
            for _ in range(op.regions):
                with result.new_block([self.i32]) as args:
                    bc.encode_YieldOp(code, args)
            result.done()

    def _argument(self, op: str, name: str, annotation: Any, number: int) -> Any:
        import cuda.tile._bytecode as bc

        if get_origin(annotation) is not None and type(None) in get_args(annotation):
            if self.version == "13.1" and op == "PrintTko":
                return None
            if "type" not in name and not self.present:
                return None
            annotation = get_args(annotation)[0]
        origin = get_origin(annotation)
        if origin is not None:
            if get_args(annotation)[0] is bool:
                return NOT_IN_BOUNDS if not self.present or self._later(op, name) else (False, True)
            return self._sequence(name, get_args(annotation)[0])
        if annotation is bc.Value:
            return next(self.params)
        if annotation is bc.TypeId:
            return self.token if "token" in name else self.i32
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            return self._enum(op, name, annotation, number)
        if annotation is bool:
            return self.present and not self._later(op, name)
        if annotation is int:
            return 3 + number
        if annotation is str:
            return f"{op}.{name}"
        if annotation is bytes:
            return (1000 + number).to_bytes(4, "little")
        if annotation is bc.OptimizationHints:
            return bc.attribute.make_load_store_hints({"sm_90": bc.LoadStoreHints(latency=5, allow_tma=False)})
        if annotation is bc.attribute.AssumePredicate:
            return bc.DivBy(16, every=4, along=1) if self.present else bc.Bounded(-3, None)
        raise AssertionError(f"{op}.{name}: no argument for {annotation}")

    def _sequence(self, name: str, item: Any) -> Any:
        import cuda.tile._bytecode as bc

        if item is bc.Value:
            return tuple(next(self.params) for _ in range(2))
        if item is bc.TypeId:
            return (self.i32, self.i32)
        if item is int:
            return (2, 0, 1)
        assert item is bc.TaggedAttribute, name
        return (bc.Integer(self.types.I64, 64, -5), bc.Float(-0.5, bc.SimpleType.F32, self.types), bc.Bool(True))

    _LATER = {("Exp", "rounding_mode"): ("13.3", "FULL"), ("TanH", "rounding_mode"): ("13.2", "FULL"),
              ("NegI", "overflow"): ("13.2", "NONE"), ("For", "unsignedCmp"): ("13.2", False),
              ("MmaF", "fast_acc"): ("13.3", False), ("FToI", "saturating"): ("13.4", False),
              ("LoadViewTko", "inbounds"): ("13.4", NOT_IN_BOUNDS),
              ("StoreViewTko", "inbounds"): ("13.4", NOT_IN_BOUNDS),
              ("AtomicRedViewTko", "inbounds"): ("13.5", NOT_IN_BOUNDS)}
    """What came after its op, and what an older file means by its absence."""

    def _later(self, op: str, name: str) -> bool:
        return (op, name) in self._LATER and self._LATER[op, name][0] > self.version

    def _enum(self, op: str, name: str, enum: type[Enum], number: int) -> Any:
        if self._later(op, name):
            return enum[self._LATER[op, name][1]]
        cases = list(enum)
        return cases[(len(op) + number) % len(cases)]
