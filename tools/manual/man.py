"""man/: kgm.1 and a page for each command, in the man macros that every system has."""

from __future__ import annotations

import textwrap

from .tree import Command, Parameter

#: Of the last change that a reader should know about: a page must not differ from day to day.
DATE = "2026-11-21"
_EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "list": [
        ("kgm list -b localhost:9092 --state stable", "the groups that are stable"),
        ("kgm list -o name --match 'orders-*'", "only their names, for a loop"),
    ],
    "describe": [
        ("kgm describe payments", "members with instance ids, what they own, their lag"),
        ("kgm describe payments -o json > before.json", "a snapshot, for diff and simulate-bounce"),
        ("kgm describe --all-groups --state", "one line a group"),
    ],
    "remove-members": [
        ("kgm remove-members payments -i payments-3 --dry-run", "what would happen"),
        ("kgm remove-members payments -i 'app-{1..3}' --yes --reason scale-in", "three seats in one request"),
    ],
    "simulate-bounce": [
        ("kgm simulate-bounce payments --all --rolling --restart-time 20s", "a rolling restart of everybody"),
        ("kgm simulate-bounce payments --all --rolling --fail-if-moves 0", "a gate for a runbook"),
        ("kgm simulate-bounce --members 6 --topic orders:24 --all --compare", "a group that does not exist"),
    ],
    "serve": [("kgm serve --listen 127.0.0.1:0 --topic orders:12", "a coordinator for a test")],
    "config test": [("kgm config test --profile prod", "why can I not get in?")],
    "watch": [
        ("kgm watch payments --expect-no-moves --until stable", "verify a rolling restart while it happens"),
    ],
    "wait": [("kgm wait payments --for stable --timeout 2m", "go on when the group is at rest")],
    "diff": [("kgm diff before.json live", "what has changed since the snapshot")],
    "doctor": [("kgm doctor payments", "what is odd about a group, and what to do about it")],
}
_EXIT = [
    ("0", "Done."),
    ("1", "An error inside kgm, or one of the broker."),
    ("2", "The command line, or a file, is not understood."),
    ("3", "A group, an instance id or a file is not there."),
    ("4", "Authentication or authorisation failed."),
    ("5", "No broker was reached, or time ran out before anything was changed."),
    ("6", "A guard refused, or the operator declined; nothing was changed."),
    ("7", "Partial: some was done and some was not, or the outcome is unknown."),
    ("8", "A condition was not met (wait, watch, gates, findings of doctor)."),
    ("130", "Interrupted with Ctrl-C."),
]


def pages(tree: Command) -> dict[str, str]:
    """{file name: page}."""
    return {f"{_page(each)}.1": _written(each, tree) for each in tree.walk()}


def _page(command: Command) -> str:
    return "-".join(("kgm", *command.words))


def _written(command: Command, tree: Command) -> str:
    from kgm import __version__

    lines = [
        r".\" Made by tools/generate_manual.py; do not edit.",
        f'.TH {_page(command).upper()} 1 "{DATE}" "kgm {__version__}" "kgm manual"',
        ".SH NAME",
        *_wrapped(f"{_page(command)} - {_lower(command.purpose)}"),
        ".SH SYNOPSIS",
        *_synopsis(command),
        ".SH DESCRIPTION",
        *_paragraphs([command.purpose + ".", *command.paragraphs]),
    ]
    if command.children:
        lines.append(".SH COMMANDS")
        for child in command.children:
            lines += [".TP", f"\\fB{_text(_page(child))}\\fR(1)", *_wrapped(child.purpose + ".")]
    if any(argument.help for argument in command.arguments):
        lines.append(".SH ARGUMENTS")
        for argument in command.arguments:
            lines += [".TP", f"\\fI{_text(argument.metavar)}\\fR", *_wrapped(argument.help or "A name.")]
    lines.append(".SH OPTIONS")
    for option in command.options:
        lines += [".TP", _head(option), *_wrapped(_said(option))]
    lines += _output(command)
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXIT:
        lines += [".TP", f".B {code}", *_wrapped(meaning)]
    lines += _environment(command)
    lines += _examples(command)
    lines += [".SH SEE ALSO", *_see_also(command, tree)]
    return "\n".join(lines) + "\n"


def _synopsis(command: Command) -> list[str]:
    words = [f"\\fB{_text(word)}\\fR" for word in command.name.split()]
    if command.children:
        words += ["\\fICOMMAND\\fR", "[\\fIARGS\\fR...]"]
    else:
        words += ["[\\fIOPTIONS\\fR]"]
        required = [option for option in command.options if option.is_required]
        words += [f"\\fB{_text(option.names[-1])}\\fR \\fI{_text(option.metavar)}\\fR" for option in required]
        words += [_argument(argument) for argument in command.arguments]
    return [" ".join(words)]


def _argument(argument: Parameter) -> str:
    name = f"\\fI{_text(argument.metavar.strip('[].'))}\\fR" + ("..." if argument.is_repeatable else "")
    return name if argument.is_required else f"[{name}]"


def _head(option: Parameter) -> str:
    value = f" \\fI{_text(option.metavar)}\\fR" if option.takes_value else ""
    return ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names) + value


def _said(option: Parameter) -> str:
    text = option.help or "See above."
    text += "" if text.endswith(".") or "[env" in text else "."
    if option.default is not None and option.default not in ("", "None"):
        text += f" The default is {option.default}."
    if option.is_repeatable and "epeatable" not in text:
        text += " It can be given several times."
    return text + (f" Environment: {option.environment}." if option.environment else "")


def _output(command: Command) -> list[str]:
    if not any("--output" in option.names for option in command.options):
        return []
    text = (
        "Data goes to stdout, everything else to stderr. The objects of json and yaml are "
        '{"schema", "cluster", "generated_at", "data", "errors"}; -o schema prints their JSON Schema. Keys are added '
        "to it, and never taken away. What ids hold that a terminal or a spreadsheet would act on is written out as "
        "an escape in every other format. Cells are folded at a terminal only."
    )
    return [".SH OUTPUT", *_wrapped(text)]


def _environment(command: Command) -> list[str]:
    rows = [(option.environment, f"As {option.names[-1]}.") for option in command.options if option.environment]
    if command.is_of_cluster:
        rows += [
            ("KGM_BOOTSTRAP_SERVER", "As --bootstrap-server."),
            ("KAFKA_BOOTSTRAP_SERVERS", "The same, for what only reads."),
            ("XDG_CONFIG_HOME", "Profiles are in kgm/config.toml below it (~/.config)."),
            ("XDG_CACHE_HOME", "Names for completion are kept in kgm/completion below it (~/.cache)."),
        ]
    if any("--color" in option.names for option in command.options):
        rows.append(("NO_COLOR", "No colour, unless --color says otherwise."))
    lines = [".SH ENVIRONMENT"] if rows else []
    for name, meaning in rows:
        lines += [".TP", f".B {_text(name)}", *_wrapped(meaning)]
    return lines


def _examples(command: Command) -> list[str]:
    found = _EXAMPLES.get(" ".join(command.words), [])
    lines = [".SH EXAMPLES"] if found else []
    for line, meaning in found:
        lines += [".TP", f".B {_text(line)}", *_wrapped(meaning[0].upper() + meaning[1:] + ".")]
    return lines


def _see_also(command: Command, tree: Command) -> list[str]:
    near = [each for each in tree.walk() if each.words[:-1] in (command.words, command.words[:-1]) and each != command]
    names = sorted({_page(each) for each in near} | ({"kgm"} if command.words else set()))
    return _wrapped(", ".join(f"{name}(1)" for name in names) + ".")


def _paragraphs(texts: list[str]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines += [".PP", *_wrapped(text)] if lines else _wrapped(text)
    return lines


def _wrapped(text: str) -> list[str]:
    """Lines that are short enough for mandoc's taste, and never taken for a macro."""
    lines = textwrap.wrap(_text(text), 78, break_long_words=False, break_on_hyphens=False)
    return ["\\&" + line if line.startswith((".", "'")) else line for line in lines]


def _text(text: str) -> str:
    for char, name in (("\\", "\\e"), ("-", "\\-"), ("~", "\\(ti"), ("^", "\\(ha"), ("`", "")):
        text = text.replace(char, name)
    return text


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
