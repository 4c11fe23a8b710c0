"""Device functions are put in place of their calls, so that the engine knows one function and one register file."""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.sim.core.decode import Decoder, Instance, describe
from tileiras.sim.errors import InvalidInstruction, UnsupportedInstruction
from tileiras.sim.ptx import module as ptx


@dataclass
class Item:
    instance: Instance
    ins: ptx.Instruction | None
    label: str | None = None


MAX_INLINE_DEPTH = 32
MAX_INSTRUCTIONS = 2_000_000


def flatten(decoder: Decoder) -> list[Item]:
    """The entry's instructions with called functions put in place of their calls."""
    items: list[Item] = []
    counter = [0]

    def emit(instance: Instance, end: str | None) -> None:
        decoder.instance = instance
        for node in instance.function.body:
            if isinstance(node, ptx.Label):
                items.append(Item(instance, None, instance.prefix + node.name))
                continue
            decoder.line = node.line
            if node.parts[0] == "ret" and end is not None:
                jump = ptx.Instruction("bra", ("bra",), [ptx.Symbol(end)], node.guard, node.guard_negated, node.line)
                jump.call = ("absolute",)
                items.append(Item(instance, jump))
            elif node.parts[0] == "call" and isinstance(node.call[1], ptx.Register):
                indirect(instance, node)
            elif node.parts[0] == "call" and _callee(decoder, instance, node) is not None:
                inline(instance, node)
            else:
                items.append(Item(instance, node))
            if len(items) > MAX_INSTRUCTIONS:
                raise UnsupportedInstruction("the program is too large after inlining")

    def indirect(caller: Instance, node: ptx.Instruction) -> None:
        """A call through a register: one guarded call for each function that it may mean."""
        assert node.call is not None
        results, register, arguments = node.call
        named = caller.function.tables.get(node.table)
        functions = decoder.module.functions
        chosen = [functions[n] for n in named if n in functions] if named is not None else list(functions.values())
        chosen = [f for f in chosen if f.defined and not f.entry and len(f.params) == len(arguments) and
                  len(f.results) == len(results)]
        counter[0] += 1
        label = f"{caller.prefix}indirect#{counter[0]}"
        if node.guard is not None:
            jump = ptx.Instruction("bra", ("bra",), [ptx.Symbol(label)], node.guard, not node.guard_negated, node.line)
            jump.call = ("absolute",)
            items.append(Item(caller, jump))
        addresses = [decoder.launch.function_addresses[f.name] for f in chosen]
        check = ptx.Instruction("call", ("call",), [register, *map(ptx.Immediate, addresses)], line=node.line)
        check.call = ([], ptx.Symbol(""), [])
        items.append(Item(caller, check))
        for f, address in zip(chosen, addresses):
            name = f"{label}:{f.name}"
            caller.slots[name] = decoder.new_slot("pred", name)
            items.append(Item(caller, ptx.Instruction("setp.eq.u64", ("setp", "eq", "u64"), [
                ptx.Register(name), register, ptx.Immediate(address)], line=node.line)))
            call = ptx.Instruction("call", ("call",), [], name, line=node.line)
            call.call = (results, ptx.Symbol(f.name), arguments)
            inline(caller, call)
        items.append(Item(caller, None, label))
        decoder.instance = caller

    def inline(caller: Instance, node: ptx.Instruction) -> None:
        assert node.call is not None
        results, _, arguments = node.call
        f = _callee(decoder, caller, node)
        assert f is not None
        counter[0] += 1
        callee = Instance(f, f"{f.name}#{counter[0]}:", caller)
        up: Instance | None = caller
        while up is not None:
            if up.function is f or callee.depth() > MAX_INLINE_DEPTH:
                raise UnsupportedInstruction(f"recursive call of {f.name}")
            up = up.parent
        if len(arguments) != len(f.params) or len(results) != len(f.results):
            raise InvalidInstruction(f"call of {f.name} with the wrong number of arguments")
        skip = None
        if node.guard is not None:
            skip = f"{callee.prefix}skip"
            jump = ptx.Instruction("bra", ("bra",), [ptx.Symbol(skip)], node.guard, not node.guard_negated, node.line)
            jump.call = ("absolute",)
            items.append(Item(caller, jump))
        before, after = [], []
        for given, formal in zip(list(arguments) + list(results), f.params + f.results):
            if formal.kind == "reg":
                continue
            if not isinstance(given, ptx.Symbol) or given.name not in caller.addresses:
                raise UnsupportedInstruction(f"argument {describe(given)} for parameter {formal.name}")
            space, address = caller.addresses[given.name]
            callee.addresses[formal.name] = (space, address + given.offset)
        decoder.enter(callee)
        for given, formal in zip(arguments, f.params):
            if formal.kind == "reg":
                before.append((given, formal))
        for given, formal in zip(results, f.results):
            if formal.kind == "reg":
                after.append((given, formal))
        for given, formal in before:
            items.append(Item(caller, _transfer(callee, caller, formal.name, given, formal.type, node.line, True)))
        end = f"{callee.prefix}end"
        emit(callee, end)
        items.append(Item(caller, None, end))
        for given, formal in after:
            items.append(Item(caller, _transfer(callee, caller, formal.name, given, formal.type, node.line, False)))
        if skip:
            items.append(Item(caller, None, skip))
        decoder.instance = caller

    decoder.enter(decoder.instance)
    emit(decoder.instance, None)
    return items


def _transfer(callee: Instance, caller: Instance, formal: str, given, type_: str, line: int, inward: bool):
    """A mov between a register of the caller and a register parameter of the callee."""
    alias = f"{callee.prefix}{formal}"
    caller.slots[alias] = callee.slots[formal]
    a, b = (ptx.Register(alias), given) if inward else (given, ptx.Register(alias))
    bits = {"f32": "b32", "f64": "b64", "f16": "b16"}.get(type_, type_)
    return ptx.Instruction(f"mov.{bits}", ("mov", bits), [a, b], line=line)


def _callee(decoder: Decoder, instance: Instance, node: ptx.Instruction) -> ptx.Function | None:
    assert node.call is not None
    target = node.call[1]
    if isinstance(target, ptx.Symbol):
        f = decoder.module.functions.get(target.name)
        if f is not None and f.defined:
            return f
    return None


def label_of(item: Item) -> str:
    ins = item.ins
    assert ins is not None
    target = ins.operands[0]
    if not isinstance(target, ptx.Symbol):
        raise InvalidInstruction("a branch needs a label")
    return target.name if ins.call else item.instance.prefix + target.name
