"""Hints that begin with a command can be pasted: no prose follows that a shell would pass to kgm, since the options that
select the cluster are added at the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgm.cli import invocation

KGM = Path(__file__).resolve().parents[2] / "kgm"
#: What stands for an interpolated value.
VALUE = "VALUE"


def text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(one.value if isinstance(one, ast.Constant) else VALUE for one in node.values)
    return None


def hints_of(tree: ast.AST) -> Iterator[ast.AST]:
    """What is given as `hint=`, or assigned to a name like _HINT."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="hint", value=value):
                yield value
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if "hint" in name.lower():
                yield value


def texts() -> Iterator[tuple[str, str]]:
    """Each hint of the source that begins with a command to which options are added, and where it is."""
    for path in sorted(KGM.rglob("*.py")):
        for hint in hints_of(ast.parse(path.read_text())):
            for node in ast.walk(hint):
                text = text_of(node)
                if (
                    text is not None
                    and " -b " not in text
                    and any(f"{text} ".startswith(command) for command in invocation._COMMANDS)
                ):
                    yield text, f"{path.relative_to(KGM)}:{node.lineno}"


def prose_in(text: str) -> list[str]:
    """The words that are neither the command, nor an option or its value, nor a placeholder."""
    command = next(one for one in invocation._COMMANDS if f"{text} ".startswith(one))
    before, found = "", []
    for word in re.split(r"; |, ", text[len(command) :])[0].split():
        if re.fullmatch("[a-z']+", word) and not before.startswith("-"):
            found.append(word)
        before = word
    return found


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("kgm wait VALUE --for stable", []),
        ("kgm describe --all-groups --verbose", []),
        ("kgm watch GROUP; `kgm list` shows the groups", []),
        ("kgm describe --all-groups --verbose shows the members", ["the", "members"]),
        ("kgm list shows the groups", ["shows", "the", "groups"]),
    ],
)
def test_what_counts_as_prose(text, prose):
    assert prose_in(text) == prose


def test_no_prose_follows_a_command_without_a_mark():
    found = list(texts())
    assert len(found) > 10
    assert [f"{where}: {text}" for text, where in found if prose_in(text)] == []
