"""`kgm help`: help for a command, or its manual page.

`kgm help COMMAND` never gets here: `kgm.cli.options.word_order` turns it into `kgm COMMAND --help`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.resources.abc import Traversable
from typing import Annotated

import typer

_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


def help_command(
    *,
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="A command.")] = None,
    man: Annotated[bool, typer.Option("--man", help="Show the manual page.")] = False,
) -> None:
    """Show help for a command, or its manual page.

    At a terminal, `man` shows the page if it is installed; otherwise the page is printed as plain text."""
    from kgm.cli.commands.about.manual_text import plain_text
    from kgm.cli.output.streams import write_stdout

    assert man, "without --man, other words were run"
    page = _page(words or [])
    if sys.stdout.isatty() and _shown_by_man(page):
        return
    write_stdout(plain_text(page.read_text(encoding="utf-8")))


def _page(words: list[str]) -> Traversable:
    """The manual page of the command. Raises UsageError if there is no such command."""
    from kgm.cli.commands.about.shipped_files import shipped_file
    from kgm.model.errors import NotFoundError, UsageError

    page = shipped_file("man", "kgm.1")
    if not words:
        return page
    try:
        if all(map(_WORD.fullmatch, words)):
            return shipped_file("man", f"kgm-{'-'.join(words)}.1")
    except NotFoundError:
        pass
    raise UsageError(f"there is no command {' '.join(words)!r}", hint="kgm --help lists the commands")


def _shown_by_man(page: Traversable) -> bool:
    """Whether `man` is installed and showed the page."""
    from importlib.resources import as_file

    program = shutil.which("man")
    if program is None:
        return False
    with as_file(page) as path:
        try:
            process = subprocess.Popen([program, str(path)])  # noqa: S603  (man, from PATH, and a page of kgm)
        except OSError:
            return False
        while True:
            try:
                return process.wait() == 0
            except KeyboardInterrupt:
                continue  # Ctrl-C is for the pager
