"""Pages that are not in docs/: the README, the project's files, and one for each command. MkDocs calls the functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from kgm.cli.commands.about.examples import EXAMPLES
from kgm.cli.overview import SECTIONS
from tools.manual.tree import Command, Parameter, command_tree

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_ROOT = Path(__file__).resolve().parents[2]
#: Page by file of the repository. The index of docs/ would take the place of the first page.
_MOVED = {
    "README.md": "index.md", "docs/README.md": "runbooks.md", "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md",
}  # fmt: skip
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the commands."""
    for section in config.nav or ():
        if "Commands" in section:
            section["Commands"] = [
                {title: [{each.name: _page(each)} for each in _commands() if each.words[0] in names]}
                for title, names in SECTIONS.items()
            ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    index = files.get_file_from_path("README.md")
    if index is not None:
        files.remove(index)
    for source, page in _MOVED.items():
        folder = Path(source).parent
        text = _LINK.sub(lambda link, folder=folder: _relinked(link, folder), (_ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    for each in _commands():
        files.append(File.generated(config, _page(each), content=_written(each)))
    return files


def _relinked(link: re.Match[str], folder: Path) -> str:
    """A link to the page of a file; a file without a page is named only."""
    text, path, anchor = link.groups()
    target = (folder / path).as_posix()
    page = _MOVED.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
    return text if page is None else f"[{text}]({page}{anchor or ''})"


# -- commands


def _commands() -> list[Command]:
    return [each for each in command_tree().walk() if each.words and not each.children]


def _page(command: Command) -> str:
    return f"commands/{'-'.join(command.words)}.md"


def _written(command: Command) -> str:
    lines = [f"# {command.name}", "", f"{command.purpose}.", ""]
    usage = " ".join([command.name, *(each.metavar for each in command.arguments), "[OPTIONS]"])
    lines += ["```sh", usage, "```", ""]
    for paragraph in command.paragraphs:
        lines += [_escaped(paragraph), ""]
    arguments = [(f"`{each.metavar}`", _escaped(each.help)) for each in command.arguments if each.help]
    if arguments:
        lines += _table(("argument", ""), arguments)
    lines += _table(("option", ""), [(_spelled(each), _told(each)) for each in command.options])
    examples = EXAMPLES.get(" ".join(command.words), ())
    if examples:
        lines += ["## Examples", "", "```sh"]
        lines += [line for text, what in examples for line in (f"# {what}", text, "")][:-1]
        lines += ["```", ""]
    return "\n".join(lines)


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> list[str]:
    return [f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows), ""]


def _spelled(option: Parameter) -> str:
    value = f" {option.metavar}" if option.takes_value else ""
    return f"`{', '.join(option.names)}{value}`".replace("|", "\\|")


def _told(option: Parameter) -> str:
    more = [f"default: {option.default}"] if option.default not in (None, "") else []
    more += [f"environment: {option.environment}"] if option.environment else []
    return _escaped(" ".join([option.help, *([f"({'; '.join(more)})"] if more else [])]))


def _escaped(text: str) -> str:
    """Text in which nothing is taken for Markdown, or for the border of a cell."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", text)
