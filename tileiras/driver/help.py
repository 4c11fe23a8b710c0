"""What `--help` and its kin print, from the table of options."""
from __future__ import annotations

from tileiras.driver.command_line import dashes
from tileiras.driver.option_table import (
    CHOICE,
    FEATURES,
    HELP_HIDDEN,
    HELP_LIST,
    HELP_LIST_HIDDEN,
    INTEGER,
    OPTIONS,
    REMARKS,
    SECTIONS,
    UINT,
    ULONG,
    VALUE,
    Option,
)
from tileiras.kept import CACHE_VARIABLE

_COLUMN = 35
_SECTION_NOTES = {REMARKS: ("Filter remarks by category.",)}
_TITLE = ("OVERVIEW: tileiras: open CUDA Tile IR optimizing assembler", "",
          "USAGE: tileiras [options] <tile bytecode file>", "", "OPTIONS:")
_ENVIRONMENT = ("", "ENVIRONMENT:", "",
                "  TILEIRAS_LINGER=<seconds>        - How long the second command within a minute stays behind, idle, to answer",
                "                                     the next ones (default 20; 0: never; always: the first stays, too; never",
                "                                     where CI is set)",
                f"  {CACHE_VARIABLE}=<folder>      - Keep what is compiled there, and take it from there (default: keep nothing)")
_WITH_VALUE = (VALUE, INTEGER, UINT, ULONG, CHOICE, FEATURES)


def help_text(action: str) -> str:
    """The text of `--help`, `--help-hidden` (all options), `--help-list` (without sections), `--help-list-hidden`."""
    shown = [o for o in OPTIONS if not o.hidden or action in (HELP_HIDDEN, HELP_LIST_HIDDEN)]
    out: list[str] = list(_TITLE)
    if action in (HELP_LIST, HELP_LIST_HIDDEN):
        for option in sorted(shown, key=lambda o: o.name):
            out += _lines(option)
    else:
        for section in SECTIONS:
            if options := [o for o in shown if o.section == section]:
                out += ["", f"{section}:", *_SECTION_NOTES.get(section, ()), ""]
                for option in options:
                    out += _lines(option)
        out += _ENVIRONMENT
    return "\n".join(out) + "\n"


def _lines(option: Option) -> list[str]:
    head = f"  {dashes(option.name)}{option.name}"
    if option.kind in _WITH_VALUE and not option.alias:
        head += f"{' ' if len(option.name) == 1 else '='}<{option.placeholder}>"
    lines = [f"{head:<{_COLUMN}}- {option.help}"]
    if option.kind == CHOICE and not option.alias:
        lines += [f"{'    =' + name:<{_COLUMN}}-   {text}" for name, text in option.choices]
    return lines
