"""Which options the command has: one table, from which lines are read (`command_line.py`) and help is printed (`help.py`)."""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.machine.targets import target_names

FLAG, VALUE, CHOICE, FEATURES, ACTION = "flag", "value", "choice", "features", "action"
INTEGER, UINT, ULONG = "integer", "uint", "ulong"
"""What an option takes. An ACTION takes nothing and is done where it stands."""

GENERIC, ASSEMBLER, REMARKS = "Generic Options", "TileIR Assembler Options", "TileIR Assembler Remark Options"
INSPECTION, BACKEND = "Inspection Options", "Options for ptxas"
UNUSED = "Options taken without effect"
SECTIONS = (GENERIC, ASSEMBLER, REMARKS, INSPECTION, BACKEND, UNUSED)

HELP, HELP_HIDDEN, HELP_LIST, HELP_LIST_HIDDEN = "help", "help-hidden", "help-list", "help-list-hidden"
VERSION, LIST_VERSIONS = "version", "list-versions"
PTXAS_FLAGS = {"w": ("-w",), "Werror": ("--warning-as-error",),
               "maxreg": ("--maxrregcount={}", "--override-directive-values"),
               "register-usage-level": ("--register-usage-level={}",)}
"""Options that ptxas has too: how it is told. Its limit of registers is ignored for kernels that say how many of their
blocks an SM must hold, as all of ours do, unless options come before directives."""


@dataclass(frozen=True, eq=False, repr=False)
class Option:
    """One option: `name`, what it takes (`kind`), its help text. `alias` names the option that it stands for; `prefix`:
    its value is attached (`-O3`); `acts`: set, it is done instead of compiling; `hidden`: `--help-hidden` shows it;
    `silent`: never suggested for a misspelt one."""

    name: str
    kind: str
    help: str = ""
    placeholder: str = "value"
    choices: tuple[tuple[str, str], ...] = ()
    alias: str = ""
    prefix: bool = False
    acts: bool = False
    hidden: bool = False
    silent: bool = False
    section: str = ASSEMBLER


_REMARK_CATEGORIES = (("none", "Disable {}remarks"), ("all", "Show all {}remarks"),
                      ("memory", "Show memory-related {}remarks"), ("tensorcore", "Show tensor-core {}remarks"))


def _remark_option(kind: str) -> Option:
    suffix, word = (f"-{kind}", f"{kind} ") if kind else ("", "")
    choices = tuple((name, text.format(word or ("all " if name == "none" else ""))) for name, text in _REMARK_CATEGORIES)
    text = f"Category for {kind} optimization remarks" if kind else (
        "Enable all remark types (passed, missed, failed, analysis) for the specified category")
    return Option(f"remarks{suffix}", CHOICE, text, choices=choices, section=REMARKS)


def _backend(name: str, kind: str, text: str, placeholder: str = "value") -> Option:
    return Option(name, kind, text, placeholder, hidden=True, silent=True, section=BACKEND)


def _unused(name: str, kind: str, text: str, placeholder: str = "value") -> Option:
    return Option(name, kind, text, placeholder, hidden=True, silent=True, section=UNUSED)


_GPUS = tuple((name, f"SM {name.removeprefix('sm_')}") for name in target_names())

OPTIONS: tuple[Option, ...] = (
    Option("h", ACTION, "Alias for --help", alias=HELP, hidden=True, section=GENERIC),
    Option(HELP, ACTION, "Display available options (--help-hidden for more)", section=GENERIC),
    Option(HELP_HIDDEN, ACTION, "Display all available options", hidden=True, section=GENERIC),
    Option(HELP_LIST, ACTION, "Display list of available options (--help-list-hidden for more)", section=GENERIC),
    Option(HELP_LIST_HIDDEN, ACTION, "Display list of all available options", hidden=True, section=GENERIC),
    Option(VERSION, ACTION, "Display the version of this program", section=GENERIC),
    Option("O", INTEGER, "Alias for --opt-level", alias="opt-level", prefix=True),
    Option("apply-controls", VALUE, "Compiler controls (ACF file). Not supported: refused with a message.", "path"),
    Option("arch", CHOICE, "Alias for --gpu-name", choices=_GPUS, alias="gpu-name"),
    Option("device-debug", FLAG, "Generate debug information (if present in the input bytecode)"),
    Option("g", FLAG, "Alias for --device-debug", alias="device-debug"),
    Option("gpu-name", CHOICE, "Specify name of NVIDIA GPU to generate code for.", choices=_GPUS),
    Option("host-arch", CHOICE, "Specify the architecture for the generated host code.",
           choices=(("x86_64", "x86_64"), ("aarch64", "aarch64"), ("arm64ec", "arm64ec"))),
    Option("host-os", CHOICE, "Specify the operating system for the generated host code.",
           choices=(("linux", "linux"), ("windows", "windows"))),
    Option("l", VALUE, "Tile libraries to load. Not supported: refused with a message.", "path"),
    Option("lineinfo", FLAG, "Generate line-number information (if present in the input bytecode)"),
    Option(LIST_VERSIONS, FLAG, "List all supported bytecode versions and exit", acts=True),
    Option("o", VALUE, "Alias for --output-file", alias="output-file"),
    Option("opt-level", INTEGER, "Specify optimization level. Default Value: 3.", "N"),
    Option("output-file", VALUE, "Specify name of output file.", "file"),
    Option("preview", FEATURES, "Enable one or more named preview features", "feature[,feature...]",
           choices=(("simt", "no effect"),)),
    Option("sanitize", CHOICE, "Enable compiler instrumentation for the sanitizer tool specified by the option.",
           choices=(("memcheck", "Sanitize memory accesses"),)),
    Option("remark-format", CHOICE, "Specify the format for remark output",
           choices=(("command-line", "Print remarks to command-line"), ("yaml", "Write remarks to YAML file")),
           section=REMARKS),
    _remark_option(""), _remark_option("analysis"), _remark_option("failed"), _remark_option("missed"),
    Option("remarks-output-file", VALUE, "Output file for YAML remark format. Default is tileir_remarks.yaml",
           "string", section=REMARKS),
    _remark_option("passed"),
    Option("dynamic-persistent", FLAG, "Let blocks go on with tile blocks that haven't started (sm_100 and newer)",
           section=INSPECTION),
    Option("emit", CHOICE, "What to write (text goes to standard output unless -o is given). Default: cubin.",
           choices=(("cubin", "machine code"), ("ptx", "PTX as ptxas gets it"),
                    ("llvm", "LLVM IR before LLVM's passes"), ("cuda_tile", "the input"),
                    ("nv_tileaa", "after convert-cudatile-to-tileaa"),
                    ("nv_tileas", "after convert-tileaa-to-tileas")), section=INSPECTION),
    Option("pass-timing", FLAG, "Print the time of every pass and phase", section=INSPECTION),
    Option("print-ir-after", VALUE, "Print the module after these passes", "pass[,pass...]", section=INSPECTION),
    Option("print-ir-after-all", FLAG, "Print the module after every pass", section=INSPECTION),
    Option("verify-each", FLAG, "Verify the module after every pass", section=INSPECTION),
    Option("without", VALUE, "Do without these: pipelines, tma, wgmma, tcgen05, agents, clusters, pairs, wide",
           "feature[,feature...]", section=INSPECTION),
    # The original takes these without a word, and none of them changes what it writes.
    _backend("Werror", FLAG, "Treat all warnings as errors"),
    _backend("generate-line-info", FLAG, "As --lineinfo"),
    _backend("maxreg", INTEGER, "Most registers a thread may have", "N"),
    _backend("register-usage-level", INTEGER, "How much ptxas spends on saving registers, 0 to 10", "N"),
    _backend("w", FLAG, "Disable warnings"),
    _unused("Om", FLAG, "Perform maximum optimization"),
    _unused("Osize", FLAG, "Optimize for code size"),
    _unused("color", FLAG, "Use colors in output"),
    _unused("crash-diagnostics-dir", VALUE, "Folder for crash diagnostics", "directory"),
    _unused("debug-compile", FLAG, "Compile for debugging"),
    _unused("disable-symbolication", FLAG, "Disable symbolizing crash backtraces"),
    _unused("ignore-bad-fp", FLAG, "A workaround for debuggers"),
    _unused("info-output-file", VALUE, "File for statistics and timers", "filename"),
    _unused("line-info-inlined-at", FLAG, "Line information names callers"),
    _unused("nvptx-f32ftz", FLAG, "Flush f32 denormals: the program's operations say that themselves"),
    _unused("nvptx-nan", FLAG, "NaN handling: the program's operations say that themselves"),
    _unused("print-all-options", FLAG, "Print all option values after command line parsing"),
    _unused("print-options", FLAG, "Print non-default options after command line parsing"),
    _unused("rng-seed", ULONG, "Seed of the random number generator", "seed"),
    _unused("sort-timers", FLAG, "Sort timers in reports"),
    _unused("stats", FLAG, "Enable statistics output"),
    _unused("stats-json", FLAG, "Display statistics as JSON"),
    _unused("track-memory", FLAG, "Time passes with memory tracking"),
    _unused("value-tracking-max-depth", UINT, "How far value analyses look", "uint"),
)
_SUGGESTED_FIRST = ("l", "g", "arch", "host-os", "version", "lineinfo")
"""Of options equally near to a misspelt one, the original suggests an earlier one of these."""

NAMES: dict[str, Option] = {option.name: option for option in sorted(
    OPTIONS, key=lambda option: [option.name != first for first in _SUGGESTED_FIRST])}
"""Options by name, in the order in which they are suggested."""
