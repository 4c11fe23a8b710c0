"""PTX text to functions, variables and instructions, nothing interpreted yet.

Takes what LLVM's NVPTX backend and NVIDIA's tools print, and hand-written PTX: module and function directives,
nested scopes with their own registers and labels, initialisers, branch tables, call prototypes and debug noise.
Scoped names are made unique here (`name` for the function's outermost scope, `name@n` for the n-th nested one), so
that later stages see one flat name space a function.
"""
from __future__ import annotations

import bisect
import re
import struct

from tileiras.sim.errors import PtxSyntaxError
from tileiras.sim.ptx.module import (
    SIZES,
    Function,
    Immediate,
    Instruction,
    Label,
    Memory,
    Module,
    Negated,
    Pair,
    Register,
    Sink,
    Symbol,
    Variable,
    Vector,
)

_TOKEN = re.compile(
    r"""\s*(?:(?P<word>[A-Za-z_$%][\w$]*(?:(?:\.|::)[\w$]+)*)"""
    r"""|(?P<punct>[][{}()<>,;:|!@+\-*=&~^/?])"""
    r"""|(?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|\d+\.\d*(?:[eE][-+]?\d+)?"""
    r"""|\d+[eE][-+]?\d+|\d+U?)"""
    r"""|(?P<directive>\.[A-Za-z_][\w$]*(?:::[\w$]+)*)"""
    r"""|(?P<string>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<bad>\S))""")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
_RECIPE = re.compile(r"^[ \t]*\.hidden\s.*?([\w$]+)\[128\],? // tensor map: (.*)$", re.M)
_NOISE = re.compile(r"^[ \t]*\.(?:loc|loc_intermediate|file)\b[^\n]*$", re.M)
_EMBEDDED = re.compile(r"^[ \t]*\.nv_intermediate_source_section\b.*?(?=^[ \t]*\.(?:visible|entry|func|global|section)\b|\Z)",
                       re.M | re.S)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')


_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_SPACES = {".reg", ".local", ".shared", ".global", ".const", ".param", ".sreg", ".tex"}


def _blank(match: re.Match) -> str:
    text = match.group()
    return text if text.startswith('"') else "\n" * text.count("\n") or " "


def parse(text: str) -> Module:
    """Parse a PTX module. Raises PtxSyntaxError with the line. NUL characters count as line ends."""
    text = text.replace("\0", "\n").replace("\r\n", "\n")
    if ".nv_intermediate_source_section" in text:           # another program's text, not PTX
        text = _EMBEDDED.sub(lambda m: "\n" * m.group().count("\n"), text)
    try:
        return _Parser(text).module()
    except RecursionError:
        error = PtxSyntaxError("the text is nested too deeply")
        error.locate()
        raise error from None


class _Parser:
    def __init__(self, text: str) -> None:
        self.result = Module(lines=text.split("\n"))
        if "// tensor map: " in text:
            self.result.recipes = dict(_RECIPE.findall(text))
        self._collect_locations(text)
        clean = _NOISE.sub("", _COMMENT.sub(_blank, text))
        self.starts = [0]
        for m in re.finditer("\n", clean):
            self.starts.append(m.end())
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.places: list[int] = []
        kinds, texts, places = self.kinds, self.texts, self.places
        for m in _TOKEN.finditer(clean):
            kind = m.lastgroup
            assert kind is not None
            kinds.append(kind)
            texts.append(m[kind])
            places.append(m.start(kind))
            if kind == "bad":
                self.fail(f"unexpected character {m[kind]!r}", m.start(kind))
        self.kinds.append("end")
        self.texts.append("")
        self.places.append(len(clean))
        self.i = 0
        self.function: Function | None = None
        self.scopes: list[tuple[int, dict[str, str]]] = []
        self.scope_count = 0

    def _collect_locations(self, text: str) -> None:
        if ".loc" not in text:
            return
        files: dict[str, str] = {}
        found = []
        for number, line in enumerate(self.result.lines, 1):
            if ".file" in line and (m := _FILE.search(line)):
                files[m.group(1)] = m.group(2)
            elif ".loc" in line and (m := _LOC.search(line)):
                found.append((number, m.group(1), m.group(2)))
        self.result.locations = [(n, f"{files.get(f, f)}:{row}") for n, f, row in found]

    # ---- tokens
    def line_of(self, place: int) -> int:
        return bisect.bisect_right(self.starts, place)

    def fail(self, message: str, place: int | None = None):
        line = self.line_of(self.places[self.i] if place is None else place)
        error = PtxSyntaxError(message)
        lines = self.result.lines
        error.locate(line=line, text=lines[line - 1].strip() if line <= len(lines) else "")
        raise error

    def peek(self) -> str:
        return self.texts[self.i]

    def next(self) -> str:
        """The next token, taken."""
        t = self.texts[self.i]
        if self.kinds[self.i] == "end":
            self.fail("unexpected end of text")
        self.i += 1
        return t

    def accept(self, text: str) -> bool:
        if self.texts[self.i] == text:
            self.i += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.peek()!r}")

    def integer(self) -> int:
        negative = False
        while self.peek() in ("-", "+"):
            negative ^= self.next() == "-"
        if self.kinds[self.i] != "number":
            self.fail(f"expected an integer, found {self.peek()!r}")
        try:
            value = int(self.next().rstrip("U"), 0)
        except ValueError:
            self.i -= 1
            try:
                value = int(self.texts[self.i].rstrip("U"), 8)      # 017
                self.i += 1
            except ValueError:
                self.fail("malformed integer")
                raise
        return -value if negative else value

    # ---- module level
    def module(self) -> Module:
        while self.kinds[self.i] != "end":
            t = self.peek()
            if t == ".version":
                self.i += 1
                self.result.version = self.next()
            elif t == ".target":
                self.i += 1
                self.result.target = self.next()
                while self.accept(","):
                    self.next()
            elif t == ".address_size":
                self.i += 1
                if self.integer() != 64:
                    self.fail("only 64-bit addresses are supported")
            elif t == ".section" or t.startswith(".nv_"):
                self.skip_section()
            elif t in (".pragma", ".alias"):
                self.skip_statement()
            elif t == ";":
                self.i += 1
            else:
                self.declaration()
        return self.result

    def skip_statement(self) -> None:
        while self.next() != ";":
            pass

    def skip_section(self) -> None:
        while self.next() != "{":
            pass
        depth = 1
        while depth:
            t = self.next()
            depth += (t == "{") - (t == "}")

    def declaration(self) -> None:
        extern = False
        while self.peek() in (".visible", ".extern", ".weak", ".common", ".attribute"):
            t = self.next()
            extern |= t == ".extern"
            if t == ".attribute":
                self.skip_parentheses()
        t = self.peek()
        if t in (".entry", ".func"):
            self.parse_function(t == ".entry")
        elif t in _SPACES:
            for v in self.variable_statement(extern):
                self.result.variables[v.name] = v
        else:
            self.fail(f"unexpected {t!r} at module level")

    def skip_parentheses(self) -> None:
        self.expect("(")
        depth = 1
        while depth:
            t = self.next()
            depth += (t == "(") - (t == ")")

    def variable_statement(self, extern: bool = False) -> list[Variable]:
        """`.space .align n .type name[dims] = init, ...;` (not registers)."""
        space = self.next()[1:].split("::")[0]
        found = []
        template = self.type_prefix()
        while True:
            found.append(self.declarator(space, template, extern))
            if self.accept(";"):
                return found
            self.expect(",")

    def type_prefix(self) -> dict:
        """Attributes and type before a declared name: {align, type, vector, pointer}."""
        out: dict = {"align": None, "type": None, "vector": 1, "pointer": False}
        while self.kinds[self.i] == "directive":
            t = self.next()[1:]
            if t == "align":
                align = self.integer()
                if not out["pointer"]:      # after .ptr it is the pointee's
                    out["align"] = align
            elif t == "ptr":
                out["pointer"] = True
            elif t in ("global", "shared", "local", "const", "param") or t.startswith(("shared::", "param::")):
                pass
            elif t == "attribute":
                self.skip_parentheses()
            elif t == "hidden":
                pass
            elif t in _VECTORS:
                out["vector"] = _VECTORS[t]
            elif t in SIZES:
                out["type"] = t
            else:
                self.fail(f"unknown type .{t}")
        if out["type"] is None:
            self.fail("a declaration needs a type")
        return out

    def declarator(self, space: str, template: dict, extern: bool = False) -> Variable:
        if self.kinds[self.i] != "word":
            self.fail(f"expected a name, found {self.peek()!r}")
        name = self.next()
        element = SIZES[template["type"]]
        size = element * template["vector"]
        align = size
        count, dims = 1, []
        while self.accept("["):
            if self.accept("]"):
                dims.append(0)
                continue
            dims.append(self.integer())
            self.expect("]")
        data, relocations = None, []
        if self.accept("="):
            flat: list = []
            self.initializer(flat)
            if dims and dims[0] == 0:
                inner = 1
                for d in dims[1:]:
                    inner *= d
                dims[0] = -(-len(flat) // max(inner, 1))
            data, relocations = self.initial_bytes(flat, template["type"])
        for d in dims:
            count *= d
        size *= count
        if size < 0 or size > 1 << 32:
            self.fail(f"variable {name} is too large")
        if data is not None:
            data = data[:size].ljust(size, b"\0")
        return Variable(name, space, size, template["align"] or align, template["type"], data, relocations, extern,
                        template["pointer"])

    def initializer(self, flat: list) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self.initializer(flat)
                if not self.accept(","):
                    self.expect("}")
                    break
            return
        if self.kinds[self.i] == "word":
            name = self.next()
            mask = None
            if name == "generic" and self.accept("("):
                name = self.next()
                self.expect(")")
            elif self.peek() == "(":
                self.fail("masked initialisers are not supported")
            addend = 0
            while self.peek() in ("+", "-"):
                addend += self.integer()
            flat.append((name, addend, mask))
            return
        flat.append(self.literal())

    def initial_bytes(self, flat: list, type_: str) -> tuple[bytes, list]:
        size = SIZES[type_]
        data = bytearray()
        relocations = []
        for item in flat:
            if isinstance(item, tuple):
                relocations.append((len(data), item[0], item[1]))
                data += bytes(size)
            elif item.kind == "int" and type_ in ("f32", "f64"):
                data += struct.pack("<f" if type_ == "f32" else "<d", item.value)
            elif item.kind == "f64" and type_ == "f32":
                value = struct.unpack("<d", item.value.to_bytes(8, "little"))[0]
                data += struct.pack("<f", value)
            else:
                data += (item.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return bytes(data), relocations

    # ---- functions
    def parse_function(self, entry: bool) -> None:
        line = self.line_of(self.places[self.i])
        self.i += 1
        f = Function("", entry, line=line)
        while self.peek() == ".attribute":
            self.i += 1
            self.skip_parentheses()
        if not entry and self.peek() == "(":
            f.results = self.parameters()
        f.name = self.next()
        if self.peek() == "(":
            f.params = self.parameters()
        while self.peek() not in ("{", ";"):
            t = self.next()
            if not t.startswith("."):
                self.fail(f"unexpected {t!r} after the function's parameters")
            values = []
            while self.kinds[self.i] == "number" or self.peek() == ",":
                if not self.accept(","):
                    values.append(self.integer())
            if t == ".attribute":
                self.skip_parentheses()
            if t == ".pragma":
                self.skip_statement()
            f.directives[t[1:]] = values
        if self.accept(";"):
            self.result.functions.setdefault(f.name, f)
            return
        f.defined = True
        self.result.functions[f.name] = f
        self.function = f
        self.scopes = []
        self.scope_count = 0
        self.open_scope()
        for v in f.params + f.results:
            self.scopes[0][1][v.name] = v.name
            if v.kind == "reg":
                f.registers[v.name] = v.type
        self.expect("{")
        self.block()
        self.function = None

    def parameters(self) -> list[Variable]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            space = self.next()
            hidden = space == ".hidden"
            if hidden:
                space = self.next()
            if space not in (".param", ".reg"):
                self.fail(f"expected a parameter, found {space!r}")
            v = self.declarator("param", self.type_prefix())
            v.kind, v.hidden = space[1:], hidden
            found.append(v)
            if not self.accept(","):
                self.expect(")")
                break
        return found

    def open_scope(self) -> None:
        self.scopes.append((self.scope_count, self.labels_ahead()))
        self.scope_count += 1

    def labels_ahead(self) -> dict[str, str]:
        return {}

    def unique(self, name: str) -> str:
        number = self.scopes[-1][0]
        return name if number == 0 else f"{name}@{number}"

    def resolve(self, name: str) -> str | None:
        for _, names in reversed(self.scopes):
            if name in names:
                return names[name]
        return None

    def scan_labels(self) -> None:
        """Names the labels of the scope that opens here, which may be used before they stand."""
        names = self.scopes[-1][1]
        depth, i = 0, self.i
        texts, kinds = self.texts, self.kinds
        while kinds[i] != "end":
            t = texts[i]
            if t == "{":
                depth += 1
            elif t == "}":
                if depth == 0:
                    break
                depth -= 1
            elif t == ":" and depth == 0 and kinds[i - 1] == "word":
                names[texts[i - 1]] = self.unique(texts[i - 1])
            i += 1

    def block(self) -> None:
        f = self.function
        assert f is not None
        self.scan_labels()
        while True:
            t = self.peek()
            if t == "}":
                self.i += 1
                self.scopes.pop()
                return
            if t == "{":
                self.i += 1
                self.open_scope()
                self.block()
            elif t == ";":
                self.i += 1
            elif t == ".reg":
                self.registers()
            elif t == ".pragma":
                self.skip_statement()
            elif t == ".section":
                self.skip_section()
            elif t in _SPACES or t in (".extern", ".visible", ".weak"):
                extern = False
                while self.peek() in (".extern", ".visible", ".weak"):
                    extern |= self.next() == ".extern"
                for v in self.variable_statement(extern):
                    plain = v.name
                    v.name = self.unique(plain)
                    self.scopes[-1][1][plain] = v.name
                    f.variables[v.name] = v
            elif t in (".branchtargets", ".calltargets", ".callprototype"):
                self.skip_statement()
            elif self.kinds[self.i] == "word" and self.texts[self.i + 1] == ":":
                self.label(f)
            else:
                f.body.append(self.instruction())

    def label(self, f: Function) -> None:
        name = self.unique(self.next())
        self.i += 1
        t = self.peek()
        if t in (".branchtargets", ".calltargets"):
            self.i += 1
            targets = []
            while not self.accept(";"):
                w = self.next()
                if w != ",":
                    targets.append(w if t == ".calltargets" else self.resolve(w) or w)
            f.tables[name] = targets
        elif t == ".callprototype":
            self.skip_statement()
        else:
            f.body.append(Label(name))

    def registers(self) -> None:
        f = self.function
        assert f is not None
        self.i += 1
        template = self.type_prefix()
        names = self.scopes[-1][1]
        if template["vector"] != 1:
            self.fail("vector registers are not supported")
        while True:
            name = self.next()
            if self.accept("<"):
                count = self.integer()
                self.expect(">")
                if not 0 <= count <= 1 << 20:
                    self.fail("too many registers")
                for k in range(count):
                    plain = f"{name}{k}"
                    u = names[plain] = self.unique(plain)
                    f.registers[u] = template["type"]
            else:
                u = names[name] = self.unique(name)
                f.registers[u] = template["type"]
            if self.accept(";"):
                return
            self.expect(",")

    def instruction(self) -> Instruction:
        line = self.line_of(self.places[self.i])
        guard, negated = None, False
        if self.accept("@"):
            negated = self.accept("!")
            name = self.next()
            guard = self.resolve(name)
            if guard is None:
                self.fail(f"unknown predicate {name}")
        if self.kinds[self.i] != "word":
            self.fail(f"expected an instruction, found {self.peek()!r}")
        opcode = self.next()
        while self.kinds[self.i] == "directive":         # `mul .f32` is legal spelling
            opcode += self.next()
        parts = tuple(opcode.split("."))
        ins = Instruction(opcode, parts, [], guard, negated, line)
        if parts[0] == "call":
            *call, ins.table = self.call_operands()
            ins.call = tuple(call)
            return ins
        if self.accept(";"):
            return ins
        while True:
            ins.operands.append(self.operand())
            if self.accept(";"):
                return ins
            self.expect(",")

    def call_operands(self) -> tuple:
        results: list = []
        arguments: list = []
        if self.peek() == "(":
            results = self.group()
            self.expect(",")
        target = self.operand()
        table = ""
        while self.accept(","):
            if self.peek() == "(":
                arguments = self.group()
            else:
                table = self.next()
                table = self.resolve(table) or table
        while not self.accept(";"):
            self.next()
        return results, target, arguments, table

    def group(self) -> list:
        self.expect("(")
        found = []
        while not self.accept(")"):
            found.append(self.operand())
            if not self.accept(","):
                self.expect(")")
                break
        return found

    def operand(self):
        t = self.peek()
        if t == "{":
            self.i += 1
            items = []
            while not self.accept("}"):
                items.append(self.operand())
                if not self.accept(","):
                    self.expect("}")
                    break
            out: object = Vector(items)
        elif t == "[":
            out = self.memory()
        elif t == "!":
            self.i += 1
            return Negated(self.operand())
        elif t == "_":
            self.i += 1
            out = Sink()
        else:
            out = self.scalar()
        if self.accept("|"):
            return Pair(out, self.operand())
        return out

    def memory(self) -> Memory:
        self.expect("[")
        base = self.scalar()
        offset = 0
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        while self.peek() in ("+", "-"):
            offset += self.integer()
        coordinates = None
        while self.accept(","):
            item = self.operand()
            coordinates = (coordinates or []) + [item]
        self.expect("]")
        return Memory(base, offset, coordinates)

    def scalar(self):
        kind = self.kinds[self.i]
        if kind == "word":
            name = self.next()
            found = self.resolve(name)
            if found is not None and self.function is not None and found in self.function.registers:
                return Register(found)              # in an address, the caller takes the offset
            offset = 0
            while self.peek() in ("+", "-") and self.kinds[self.i + 1] in ("number", "punct"):
                offset += self.integer()
            return Symbol(found or name, offset)
        return self.literal()

    def literal(self) -> Immediate:
        if self.peek() == "(":                      # a parenthesised constant
            self.i += 1
            out = self.literal()
            self.expect(")")
            return out
        negative = False
        complement = False
        while self.peek() in ("-", "+", "~"):
            t = self.next()
            negative ^= t == "-"
            complement ^= t == "~"
        if self.kinds[self.i] != "number":
            self.fail(f"expected an operand, found {self.peek()!r}")
        t = self.next()
        low = t[:2].lower()
        if low == "0f" and len(t) == 10:
            bits = int(t[2:], 16)
            return Immediate(bits ^ (negative << 31), "f32")
        if low == "0d" and len(t) == 18:
            return Immediate(int(t[2:], 16) ^ (negative << 63), "f64")
        if "." in t or ("e" in t.lower() and low != "0x"):
            value = float(t)
            return Immediate(int.from_bytes(struct.pack("<d", -value if negative else value), "little"), "f64")
        self.i -= 1
        value = self.integer()
        value = ~value if complement else value
        return Immediate(-value if negative else value)
