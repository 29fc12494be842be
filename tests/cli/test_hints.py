"""Commands in hints, notes and warnings can be pasted: they get the options that select the cluster, since without them
they would address another one, and no prose follows that a shell would pass to kgm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgm.cli import invocation
from kgm.cli.output.failures import error_text, print_warning
from kgm.cli.output.notices import Notices
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import Report, Table, rendered
from kgm.model.errors import KgmError

KGM = Path(__file__).resolve().parents[2] / "kgm"
#: What stands for an interpolated value.
VALUE = "VALUE"
ANY_COMMAND = re.compile(rf"\bkgm (?:{'|'.join(invocation._COMMANDS)})(?![a-z-])")
#: Examples, a demonstration, the title of a screen, and what a server says or a process without arguments.
WITHOUT_CLUSTER = ("cli/commands/about/", "cli/commands/demo.py", "cli/output/watch/screen.py", "operations/export/")
#: What has no command to run, or one of a place that only the reader knows.
MENTIONS = (
    "kgm export needs", "kgm rollout does not start", "kgm rollout restarts", "scale-in by kgm rollout",
    "restart by kgm rollout", "run kgm describe", "the kgm rollout lines", "kgm drain: ", "Next: kgm serve",
)  # fmt: skip


def text_of(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(one.value if isinstance(one, ast.Constant) else value_of(one.value) for one in values)
        case ast.Call():
            return value_of(node)
    return None


def value_of(node: ast.AST) -> str:
    """What an interpolated value looks like: a command that is made of words, or VALUE."""
    match node:
        case ast.Call(func=ast.Name(id="group_command"), args=[ast.Constant(value=name), *_]):
            return f"kgm {name} {VALUE}"
    return VALUE


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of help and documentation, and but the parts of texts that have parts."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.keyword(arg="help" | "epilog" | "usage"):
                continue
            case ast.JoinedStr():
                yield node
            case _:
                yield node
                yield from nodes_of(node)


def texts() -> Iterator[tuple[str, str]]:
    """Each text of the source with a command to which the cluster may have to be added, and where it is."""
    for path in sorted(KGM.rglob("*.py")):
        where = str(path.relative_to(KGM))
        if where.startswith(WITHOUT_CLUSTER):
            continue
        for node in nodes_of(ast.parse(path.read_text())):
            text = text_of(node)
            if text is not None and stretches(text) and not any(one in text for one in MENTIONS):
                yield text, f"{where}:{node.lineno}"


def stretches(text: str) -> list[str]:
    """Each command of the text, up to where another one begins or other text may follow."""
    text = re.sub("`[^`]*`", "", text)  # a mention of a command, not one to paste
    found = [one.start() for one in ANY_COMMAND.finditer(text)]
    pieces = [text[start:end] for start, end in zip(found, [*found[1:], len(text)], strict=False)]
    return [re.split(r"; |, |[)]", piece)[0] for piece in pieces]


def clusterless(text: str) -> list[str]:
    """The commands that are printed without the cluster that the operator typed."""
    invocation.remember(["doctor", "-b", "h:1"])
    stated = {"-b", "--from-file", "--store", "--source"}
    return [one for one in stretches(invocation.with_cluster(text)) if stated.isdisjoint(one.split())]


def prose_in(text: str) -> list[str]:
    """The words that are neither the command, nor an option or its value, nor a placeholder."""
    found = []
    for stretch in stretches(text):
        before = ""
        for word in ANY_COMMAND.sub("", stretch, count=1).split():
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
        ("next: kgm list shows the groups", ["shows", "the", "groups"]),
    ],
)
def test_what_counts_as_prose(text, prose):
    assert prose_in(text) == prose


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("the others: kgm delete-groups a", []),
        ("next: kgm simulate-bounce g --all", []),
        ("done (kgm wait g --for settled)", []),
        ("stop the process, then kgm wait g --for stable", []),
        ("next: kgm simulate-bounce g --from-file x", []),
        ("see kgm describe g", ["kgm describe g"]),
        ("run it again and kgm list", ["kgm list"]),
    ],
)
def test_what_counts_as_a_command_without_cluster(text, without):
    assert clusterless(text) == without


@pytest.mark.long
def test_no_command_is_printed_without_the_cluster():
    found = list(texts())
    assert len(found) > 30
    assert [f"{where}: {text}" for text, where in found if clusterless(text)] == []


@pytest.mark.long
def test_no_prose_follows_a_command_without_a_mark():
    found = [(text, where) for text, where in texts() if " -b " not in text]
    assert [f"{where}: {text}" for text, where in found if prose_in(text)] == []


def test_every_way_to_print_a_text_adds_the_cluster(capsys):
    invocation.remember(["drain", "--profile", "test"])
    text, printed = "next: kgm describe g", "next: kgm describe g --profile test"
    table = Table(columns=[], rows=[], notes=[text])
    assert rendered(Report(schema="x", data={}, tables=[table]), OutputOptions()) == f"{printed}\n"
    assert error_text(KgmError("no", hint=text)) == f"error: no\nhint: {printed}\n"
    print_warning(text)
    Notices().warn(text)
    Notices().note(text)
    assert capsys.readouterr().err == f"warning: {printed}\n" * 2 + f"{printed}\n"
    assert [*invocation.warnings()] == [printed]
