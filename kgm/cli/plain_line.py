"""Command lines that can be understood without click and typer, whose import takes longer than most commands.

Only what is beyond doubt is understood: known options by their full names, each once, with their values behind them.
Every other line, and every wrong one, is left to click: then nothing here has done anything."""

from __future__ import annotations

import gc
import os
import sys

from kgm.cli.overview import COMMANDS, help_text

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from kgm.cli.options.declarations import Argument, Command, Option

#: Commands whose parameters are all declared by `kgm.cli.options.declarations`.
PLAIN = ("list", "describe")
_SHELL_COMPLETION = "_KGM_COMPLETE"


def run_plainly(words: Sequence[str]) -> int | None:
    """Run a line; returns the exit code, or None when click has to look at it. Raises KgmError."""
    from kgm.cli.output.streams import write_stdout

    if _SHELL_COMPLETION in os.environ:
        return None
    if len(words) == 1 and words[0] in ("-h", "--help"):
        text = help_text(_columns())
        if text is not None:
            write_stdout(text)
        return None if text is None else 0
    if words == ["--version"]:
        from kgm.version import __version__

        write_stdout(f"kgm {__version__}\n")
        return 0
    if not words or words[0] not in PLAIN:
        return None
    return _run_command(words)


def _run_command(words: Sequence[str]) -> int | None:
    import importlib

    module, function, _ = COMMANDS[words[0]]
    command: Command = getattr(importlib.import_module(f"kgm.cli.commands.{module}"), function)
    understood = understand(command, words[1:], os.environ)
    if understood is None:
        return None
    # Looking for cycles takes a tenth of the time of thousands of groups, and finds some hundred objects.
    gc.disable()
    try:
        command.call(*understood)
    except KeyboardInterrupt:  # without a word, as typer does
        return 130
    finally:
        gc.enable()
    return 0


def understand(
    command: Command, words: Sequence[str], environment: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]] | None:
    """(values of all parameters, sources of the added ones that were given); None when click has to look at it."""
    from kgm.cli.options.declarations import Argument

    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    options: dict[str, tuple[str, Any, Option]] = {}
    argument = None
    for name, kind, declared, default in _parameters(command):
        values[name] = default
        if isinstance(declared, Argument):
            argument = name
            continue
        options |= dict.fromkeys(declared.names, (name, kind, declared))
        exported = environment.get(declared.settings.get("envvar", ""))
        if exported:
            if kind is bool or not _is_plain(declared, exported):
                return None
            values[name], sources[name] = exported, "environment"
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            if argument is None or not word:
                return None
            values[argument] = [*(values[argument] or ()), word]
            continue
        if not _take(word, rest, options, values, sources):
            return None
    return values, {name: source for name, source in sources.items() if name in command.added}


def _take(
    word: str, rest: Iterator[str], options: Mapping[str, tuple[str, Any, Option]], values: dict[str, Any],
    sources: dict[str, str],
) -> bool:  # fmt: skip
    """Take an option, and its value from the rest. False when click has to look at it."""
    spelled, equals, text = word.partition("=")
    if spelled not in options or (equals and not spelled.startswith("--")):
        return False
    name, kind, declared = options[spelled]
    is_list = kind == list[str] | None
    if sources.get(name) == "flag" and not is_list:
        return False
    value: Any
    if kind is bool:
        value = True
        if equals:
            return False
    else:
        value = text if equals else next(rest, "")
        if not value or value.startswith("-") or not _is_plain(declared, value):
            return False
    values[name] = [*(values[name] or ()), value] if is_list else value
    sources[name] = "flag"
    return True


def _is_plain(declared: Option, value: str) -> bool:
    return declared.plain is None or value in declared.plain


def _parameters(command: Command) -> Iterator[tuple[str, Any, Option | Argument, Any]]:
    """(name, type, declaration, default) of each parameter: first the command's own."""
    function: Any = command.function
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(positional, function.__defaults__ or (), strict=True)) | (function.__kwdefaults__ or {})
    for name, text in function.__annotations__.items():
        if name in defaults:
            annotation = eval(text, function.__globals__)  # noqa: S307  (the annotation, as `inspect` evaluates it)
            yield name, annotation.__origin__, annotation.__metadata__[0], defaults[name]
    for name, (annotation, default) in command.added.items():
        yield name, annotation.__origin__, annotation.__metadata__[0], default


def _columns() -> int:
    """The width of the terminal, as shutil.get_terminal_size tells it."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80
