"""How a command line is read: LLVM's ways of writing options, from one table.

`-name`, `--name`, `-name=value`, `--name value`, `-O3`, `-O 3`, a flag with `=true` or `=false`, `--` before a
positional; the last of a repeated option wins. Every error of a command line is reported, then it is refused
with exit code 1. Texts are those that LLVM's command-line library prints, since build systems match them.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from tileiras.machine.targets import target_names

FLAG, VALUE, INTEGER, CHOICE = "flag", "value", "integer", "choice"
_TRUE = ("", "true", "TRUE", "True", "1")
_FALSE = ("false", "FALSE", "False", "0")
_REMARK_CATEGORIES = (("none", "Disable {}remarks"), ("all", "Show all {}remarks"),
                      ("memory", "Show memory-related {}remarks"), ("tensorcore", "Show tensor-core {}remarks"))


@dataclass(eq=False, repr=False)
class Option:
    """One option: `name`, what it takes, its help text; `target` is set for an alias, `prefix` for `-O3`."""

    name: str
    kind: str
    help: str = ""
    placeholder: str = "value"
    choices: tuple[tuple[str, str], ...] = ()
    alias: str = ""
    prefix: bool = False
    section: str = "TileIR Assembler Options"


def _gpu_choices() -> tuple[tuple[str, str], ...]:
    return tuple((name, f"SM {name.removeprefix('sm_')}") for name in target_names())


def _remark_option(kind: str) -> Option:
    suffix, word = (f"-{kind}", f"{kind} ") if kind else ("", "")
    choices = tuple((name, text.format(word or ("all " if name == "none" else ""))) for name, text in _REMARK_CATEGORIES)
    text = f"Category for {kind} optimization remarks" if kind else (
        "Enable all remark types (passed, missed, failed, analysis) for the specified category")
    return Option(f"remarks{suffix}", CHOICE, text, choices=choices, section="TileIR Assembler Remark Options")


_INSPECTION = "Inspection Options"

OPTIONS: tuple[Option, ...] = (
    Option("help", FLAG, "Display available options", section="Generic Options"),
    Option("version", FLAG, "Display the version of this program", section="Generic Options"),
    Option("O", INTEGER, "Alias for --opt-level", alias="opt-level", prefix=True),
    Option("arch", CHOICE, "Alias for --gpu-name", choices=_gpu_choices(), alias="gpu-name"),
    Option("device-debug", FLAG, "Generate debug information (if present in the input bytecode)"),
    Option("g", FLAG, "Alias for --device-debug", alias="device-debug"),
    Option("gpu-name", CHOICE, "Specify name of NVIDIA GPU to generate code for.", choices=_gpu_choices()),
    Option("host-arch", CHOICE, "Specify the architecture for the generated host code.",
           choices=(("x86_64", "x86_64"), ("aarch64", "aarch64"), ("arm64ec", "arm64ec"))),
    Option("host-os", CHOICE, "Specify the operating system for the generated host code.",
           choices=(("linux", "linux"), ("windows", "windows"))),
    Option("lineinfo", FLAG, "Generate line-number information (if present in the input bytecode)"),
    Option("list-versions", FLAG, "List all supported bytecode versions and exit"),
    Option("o", VALUE, "Alias for --output-file", alias="output-file"),
    Option("opt-level", INTEGER, "Specify optimization level. Default Value: 3.", "N"),
    Option("output-file", VALUE, "Specify name of output file.", "file"),
    Option("sanitize", CHOICE, "Enable compiler instrumentation for the sanitizer tool specified by the option.",
           choices=(("memcheck", "Sanitize memory accesses"),)),
    Option("remark-format", CHOICE, "Specify the format for remark output",
           choices=(("command-line", "Print remarks to command-line"), ("yaml", "Write remarks to YAML file")),
           section="TileIR Assembler Remark Options"),
    _remark_option(""), _remark_option("analysis"), _remark_option("failed"), _remark_option("missed"),
    Option("remarks-output-file", VALUE, "Output file for YAML remark format. Default is tileir_remarks.yaml",
           "string", section="TileIR Assembler Remark Options"),
    _remark_option("passed"),
    Option("emit", CHOICE, "What to write (text goes to standard output unless -o is given). Default: cubin.",
           choices=(("cubin", "machine code"), ("ptx", "PTX as ptxas gets it"),
                    ("llvm", "LLVM IR before LLVM's passes"), ("cuda_tile", "the input"),
                    ("nv_tileaa", "after convert-cudatile-to-tileaa"),
                    ("nv_tileas", "after convert-tileaa-to-tileas")), section=_INSPECTION),
    Option("pass-timing", FLAG, "Print the time of every pass and phase", section=_INSPECTION),
    Option("print-ir-after", VALUE, "Print the module after these passes", "pass[,pass...]", section=_INSPECTION),
    Option("print-ir-after-all", FLAG, "Print the module after every pass", section=_INSPECTION),
    Option("verify-each", FLAG, "Verify the module after every pass", section=_INSPECTION),
)
_HELP_NAMES = ("help", "h", "help-list", "help-hidden", "help-list-hidden")
_BY_NAME = {option.name: option for option in OPTIONS}
_PREFIXED = tuple(option for option in OPTIONS if option.prefix)


@dataclass(eq=False, repr=False)
class CommandLine:
    """A command line as read: option values by name, the input, and what is wrong with it."""

    values: dict[str, str | int | bool] = field(default_factory=dict)
    input: str | None = None
    errors: list[str] = field(default_factory=list)

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, default)
        return value if isinstance(value, str) else default

    def flag(self, name: str) -> bool:
        return self.values.get(name) is True


def _distance(a: str, b: str) -> int:
    """Edits that turn `a` into `b`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def _nearest(name: str) -> str:
    """The option that a misspelt one probably meant, with its dashes."""
    best = min(_BY_NAME, key=lambda known: _distance(name[:64], known))
    return f"{_dashes(best)}{best}"


def _dashes(name: str) -> str:
    return "-" if len(name) == 1 else "--"


def _convert(option: Option, shown: str, text: str, errors: list[str]) -> str | int | bool | None:
    """The value of an option's text, or None after noting what is wrong with it."""
    where = f"for the {_dashes(shown)}{shown} option:"
    if option.kind == FLAG:
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        errors.append(f"{where} '{text}' is invalid value for boolean argument! Try 0 or 1")
    elif option.kind == INTEGER:
        try:
            if text != text.strip() or "_" in text or len(text) > 20:
                raise ValueError(text)
            return int(text, 10)
        except ValueError:
            errors.append(f"{where} '{text}' value invalid for integer argument!")
    elif option.kind == CHOICE:
        if any(text == name for name, _ in option.choices):
            return text
        errors.append(f"{where} Cannot find option named '{text}'!")
    else:
        return text
    return None


def _split(argument: str) -> tuple[str, str | None]:
    """The name and the attached value of `--name=value`."""
    name, equals, value = argument.lstrip("-").partition("=") if argument.startswith("-") else ("", "", "")
    return name, value if equals else None


def parse(arguments: list[str], program: str) -> CommandLine:
    """Read a command line (without the program's name). Its `errors` say what is wrong with it.

    Reading stops at `--help` and `--version`, which win over everything after them.
    """
    line = CommandLine()
    positional: list[str] = []
    index, only_positional = 0, False
    while index < len(arguments):
        argument = arguments[index]
        index += 1
        if only_positional or argument == "-" or not argument.startswith("-"):
            positional.append(argument)
            continue
        if argument == "--":
            only_positional = True
            continue
        name, value = _split(argument)
        if name in _HELP_NAMES or name == "version":
            line.values["version" if name == "version" else "help"] = True
            return line
        option = _BY_NAME.get(name)
        if option is None or (option.prefix and value is not None):
            prefixed = next((p for p in _PREFIXED if name.startswith(p.name) and argument.count("-", 0, 2) == 1), None)
            if prefixed is None:
                _unknown(argument, name, program, line.errors)
                continue
            option, value = prefixed, argument[1 + len(prefixed.name):]
        known = _BY_NAME[option.alias] if option.alias else option
        if value is None:
            if option.kind == FLAG:
                value = ""
            elif index == len(arguments) or (known.kind == INTEGER and arguments[index][:1] == "-" and option.prefix):
                line.errors.append(f"for the {_dashes(option.name)}{option.name} option: requires a value!")
                continue
            else:
                value = arguments[index]
                index += 1
        converted = _convert(known, known.name, value, line.errors)
        if converted is not None:
            line.values[known.name] = converted
    if len(positional) > 1:
        line.errors.append("Too many positional arguments specified!\n"
                           f"Can specify at most 1 positional arguments: See: {program} --help")
    line.input = positional[0] if positional else None
    return line


def _unknown(argument: str, name: str, program: str, errors: list[str]) -> None:
    attached = _BY_NAME.get(name[:1]) if not argument.startswith("--") else None
    if attached is not None:
        errors.append(f"for the -{attached.name} option: may not occur within a group!")
    errors.append(f"Unknown command line argument '{argument}'.  Try: '{program} --help'")
    errors.append(f"Did you mean '{'-' + attached.name if attached is not None else _nearest(name)}'?")


_COLUMN = 33
_SECTION_NOTES = {"TileIR Assembler Remark Options": ("Filter remarks by category.",)}


def help_text() -> str:
    """The text of `--help`."""
    out = ["OVERVIEW: tileiras: open CUDA Tile IR optimizing assembler", "",
           "USAGE: tileiras [options] <tile bytecode file>", "", "OPTIONS:"]
    section = ""
    for option in OPTIONS:
        if option.section != section:
            section = option.section
            out += ["", f"{section}:", *_SECTION_NOTES.get(section, ()), ""]
        head = f"  {_dashes(option.name)}{option.name}"
        if option.kind in (VALUE, INTEGER, CHOICE) and not option.alias:
            head += f"=<{option.placeholder}>"
        out.append(f"{head:<{_COLUMN}}  - {option.help}")
        if not option.alias:
            out += [f"{'    =' + name:<{_COLUMN}}  -   {text}" for name, text in option.choices]
    return "\n".join(out) + "\n"
