"""Random loops whose carried tiles change places: crossed accumulators, values seen an iteration late, operands carried on,
products in branches, running maxima beside them, loops in loops and behind one another, counted ones and others, none and few
iterations.

    python -m tests.fuzz.tangled --seed 0 --count 50 --gpu sm_90 --level 3
"""
from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.fuzz import products
from tests.fuzz.products import Draw, Shape, Value, tile

LATE_BOUND = 50
"""What an end that isn't a product's is clamped to: sums stay exact."""


class Tangled(Draw):
    """One program's text: one or two loops, each from the sums that the one before has left."""

    def text(self) -> str:
        rng = self.rng
        trips = rng.choice((0, 1, 2, 2, 3))
        self.steps = max(trips, 1)
        self.nested = rng.random() < 0.25
        self.trips = trips
        wide = "i32" if self.kinds == ["i8"] else "f32"
        self.sums = ["i8"] if wide == "i32" else [k for k in self.kinds if k != "i8"]
        shapes = [(rng.choice(self.extents), rng.choice(self.extents)) for _ in range(rng.choice((1, 1, 2)))]
        self.lines = self.head
        carried: list[tuple[Value, str]] = []
        for _ in range(rng.choice((1, 2, 2, 3, 4))):
            shape = rng.choice(shapes)
            carried.append(((self.name(), shape, wide), self.constant(rng.choice((0, 0, 0, 1, 7)), shape, wide)))
        for _ in range(rng.choice((0, 0, 1, 2))):
            shape, kind = (rng.choice(self.extents), rng.choice(self.extents)), rng.choice(self.sums)
            carried.append(((self.name(), shape, kind), self.constant(rng.choice((0, 1)), shape, kind)))
        for _ in range(rng.choice((0, 0, 1))):
            shape = (rng.choice(shapes)[0], 1)
            carried.append(((self.name(), shape, wide), self.constant(0, shape, wide)))
        self.lines = self.tail
        for number in range(rng.choice((1, 1, 2))):
            if number:
                carried = [((self.name(), v[1], v[2]), self.settled((start, v[1], v[2]))) for v, start in carried]
            carried = self.loop(carried)
        for v, result in carried:
            self.store((result, v[1], v[2]), 1)
        given = ", ".join(f"{p}: tile<ptr<{e}>>" for p, e in self.parameters)
        return "\n".join([
            "cuda_tile.module @m {", f"entry @kernel({given}, %steps: tile<i32>){self.hints} {{",
            "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>",
            "%two = constant <i32: 2> : tile<i32>", "%none = make_token : token",
            *self.head, *self.tail, "return", "}", "}"])

    def settled(self, value: Value) -> str:
        name, shape, element = value
        return self.clamp(name, shape, element, LATE_BOUND) if element in ("f32", "i32") else name

    # --- loops ------------------------------------------------------------------------------------------------------

    def loop(self, carried: list[tuple[Value, str]]) -> list[tuple[Value, str]]:
        """A loop, behind what is there already; what it leaves."""
        outside, self.lines = self.lines, []
        args = [v for v, _ in carried]
        ends = self.ends(args, self.work(list(args)))
        body = self.lines
        types = ", ".join(f"tile<{tile(v[1], v[2])}>" for v in args)
        results = [self.name() for _ in args]
        if self.nested:
            outer = [self.name() for _ in args]
            inner = [self.name() for _ in args]
            self.lines = self.counted("%i", "%steps", inner, list(zip(args, outer)), types, body, ends)
            small = [self.settled((r, v[1], v[2])) for v, r in zip(args, inner)]
            around = [((o, v[1], v[2]), start) for o, (v, start) in zip(outer, carried)]
            outside += self.counted("%o", "%two", results, around, types, self.lines, small)
        else:
            make = self.counted if self.rng.random() < 0.75 else self.until
            outside += make("%i", "%steps", results, carried, types, body, ends)
        self.lines = outside
        return [(v, r) for (v, _), r in zip(carried, results)]

    def counted(self, index: str, upper: str, results: list[str], carried: Sequence[tuple[Value, str]], types: str,
                body: list[str], ends: list[str]) -> list[str]:
        inits = ", ".join(f"{v[0]} = {start}" for v, start in carried)
        return [f"{', '.join(results)} = for {index} in (%zero to {upper}, step %one) : tile<i32> "
                f"iter_values({inits}) -> ({types}) {{",
                *body, f"continue {', '.join(ends)} : {types}", "}"]

    def until(self, index: str, upper: str, results: list[str], carried: Sequence[tuple[Value, str]], types: str, body: list[str],
              ends: list[str]) -> list[str]:
        """The same as a loop that is left from its middle."""
        inits = ", ".join(f"{v[0]} = {start}" for v, start in carried)
        args = ", ".join(v[0] for v, _ in carried)
        done, following = self.name(), self.name()
        return [f"{', '.join(results)} = loop iter_values({index} = %zero, {inits}) : tile<i32>, {types} -> {types} {{",
                f"{done} = cmpi greater_than_or_equal {index}, {upper}, signed : tile<i32> -> tile<i1>",
                f"if {done} {{", f"break {args} : {types}", "}", *body, f"{following} = addi {index}, %one : tile<i32>",
                f"continue {following}, {', '.join(ends)} : tile<i32>, {types}", "}"]

    # --- an iteration -----------------------------------------------------------------------------------------------

    def work(self, pool: list[Value]) -> list[Value]:
        """Products and what becomes of them; everything that is there then."""
        for _ in range(self.rng.randrange(4)):
            sums = [v for v in pool if v[2] in ("f32", "i32") and v[1][1] > 1]
            shape = self.rng.choice(sums)[1]
            what = self.rng.random()
            if what < 0.3:
                pool.append(self.shaped(self.rng.choice(sums)))
            elif what < 0.55:
                pool.append(self.branch(pool, shape))
            else:
                self.product(pool, shape, None, self.rng.choice(self.sums))
        if self.rng.random() < 0.3 and not self.nested:
            self.store(self.rng.choice([v for v in pool if v[2] in ("f32", "i32") and v[1][1] > 1]), self.steps)
        return pool

    def branch(self, pool: list[Value], shape: Shape, acc: str | None = None) -> Value:
        """What one of two branches gives, each of them with a product or what was there before."""
        wide = "i32" if self.sums == ["i8"] else "f32"
        predicate, bound = self.rng.choice((("equal", "%one"), ("equal", "%zero"), ("greater_than", "%zero"),
                                            ("less_than", "%two")))
        condition = self.emit(f"cmpi {predicate} %i, {bound}, signed : tile<i32> -> tile<i1>")
        around, sides = self.lines, []
        for _ in range(2):
            self.lines = side = []
            inside, what = list(pool), self.rng.random()
            if what < 0.6:
                got = self.product(inside, shape, acc, self.rng.choice(self.sums))[0]
            elif what < 0.8 and acc is not None:
                got = acc
            else:
                got = self.settled(self.rng.choice([v for v in inside if v[1] == shape and v[2] == wide]))
            side.append(f"yield {got} : tile<{tile(shape, wide)}>")
            sides.append(side)
        self.lines = around
        name = self.name()
        self.lines += [f"{name} = if {condition} -> (tile<{tile(shape, wide)}>) {{", *sides[0], "} else {", *sides[1], "}"]
        return name, shape, wide

    def ends(self, args: list[Value], pool: list[Value]) -> list[str]:
        """What the next iteration is given, for each carried tile."""
        out: list[str] = []
        for arg in args:
            name, shape, element = arg
            alike = [v for v in args if v[1:] == arg[1:]]
            what = self.rng.random()
            if shape[1] == 1:
                out.append(self.running(arg, pool))
            elif element not in ("f32", "i32"):
                out.append(self.operand(pool, shape, element)[0] if what < 0.8 else self.rng.choice(alike)[0])
            elif what < 0.55:
                start = self.rng.choice(alike)[0] if self.rng.random() < 0.5 else name
                for _ in range(self.rng.choice((1, 1, 2))):
                    start = self.product(pool, shape, start, self.rng.choice(self.sums))[0]
                out.append(start)
            elif what < 0.7:
                out.append(self.branch(pool, shape, self.rng.choice(alike)[0])[0])
            elif what < 0.85:
                out.append(self.rng.choice(alike)[0])       # an iteration late, or never
            else:
                out.append(self.settled(self.rng.choice([v for v in pool if v[1] == shape and v[2] == element])))
        return out

    def running(self, arg: Value, pool: list[Value]) -> str:
        """The greatest element of each row so far."""
        name, shape, wide = arg
        found = [v for v in pool if v[2] == wide and v[1][0] == shape[0] and v[1][1] > 1]
        of = self.rng.choice(found) if found else self.product(pool, (shape[0], self.rng.choice(self.extents)), None, self.sums[0])
        line, t = f"tile<{shape[0]}x{wide}>", f"tile<{tile(of[1], wide)}>"
        real = wide == "f32"
        greatest = f"{'maxf %x, %y' if real else 'maxi %x, %y signed'} : tile<{wide}>"
        got, identity = self.name(), "-1.0e30 : f32" if real else "-2147483648 : i32"
        self.lines.append(f"{got} = reduce {of[0]} dim=1 identities=[{identity}] : {t} -> {line}\n"
                          f"(%x: tile<{wide}>, %y: tile<{wide}>) {{\n%z = {greatest}\nyield %z : tile<{wide}>\n}}")
        got = self.emit(f"reshape {got} : {line} -> tile<{tile(shape, wide)}>")
        return self.emit(f"{'maxf' if real else 'maxi'} {name}, {got}{'' if real else ' signed'} : tile<{tile(shape, wide)}>")


def main(argv: Sequence[str] | None = None) -> int:
    return products.main(argv, Tangled, "python -m tests.fuzz.tangled")


if __name__ == "__main__":
    sys.exit(main())
