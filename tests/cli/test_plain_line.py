"""Lines that are run without click mean what click makes of them, or are left to click."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import random
import subprocess
import sys

import click
import pytest
import typer

from kgm.cli import main, overview, plain_line, tree
from kgm.server import serve_in_thread
from tests.cli.environment import bare
from tests.client.joiners import form_group

LINES = [
    ["list"],
    ["list", "-b", "h:1"],
    ["list", "--bootstrap-server=h:1", "-o", "json", "--state", "stable", "--state", "a,b", "--type=consumer"],
    ["list", "--lag", "--sort", "lag", "--match", "a*", "--topic", "t", "--no-headers", "--debug", "-X", "a=b"],
    ["list", "--bootstrap-servers", "h:1", "--timeout", "5s", "--profile", "p", "--command-config", "f"],
    ["describe", "a", "-b", "h:1", "b", "--group", "c", "-g", "d", "--color", "never", "-X", "a=b", "-X", "c=d"],
    ["describe", "--all-groups", "--offsets", "--verbose", "--brokers", "h:1"],
    ["describe", "--members", "--state", "--offsets", "--match", "x"],
]
LEFT_TO_CLICK = [
    ["list", "--help"],
    ["list", "extra"],
    ["list", "--nope"],
    ["list", "--sort"],
    ["list", "--sort", "--lag"],
    ["list", "--sort", "a", "--sort", "b"],
    ["list", "--lag=yes"],
    ["list", "-o=json"],
    ["list", "-ojson"],
    ["list", "-o", "schema"],
    ["list", "-o", "nonsense"],
    ["describe", "--", "-g"],
    ["describe", "-"],
    ["describe", ""],
    ["describe", "--match", ""],
    ["describe", "-gx"],
]
WORDS = sorted({word for line in (*LINES, *LEFT_TO_CLICK) for word in line[1:]})


#: What takes a millisecond to import, or much more.
SLOW = {
    "asyncio",
    "click",
    "collections",
    "contextlib",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "gettext",
    "hashlib",
    "inspect",
    "json",
    "logging",
    "operator",
    "pathlib",
    "queue",
    "re",
    "rich",
    "selectors",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "typer",
    "typing",
    "uuid",
}


class Called(Exception):
    """What a command was called with."""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in set(os.environ) - set(bare()):
        monkeypatch.delenv(name)


def command_of(words):
    module, function, _ = overview.COMMANDS[words[0]]
    return getattr(importlib.import_module(f"kgm.cli.commands.{module}"), function)


def by_click(words, monkeypatch):
    """(values, sources) as click calls the command; None when it does not."""

    def take(_, values, sources):
        raise Called(values, sources)

    monkeypatch.setattr("kgm.cli.options.declarations.Command.call", take)
    tree.app.registered_commands.clear()
    tree.app.registered_groups.clear()
    tree.register(words[0])
    tree.register("version")  # a tree of one command has no names
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            typer.main.get_command(tree.app).main(words, prog_name="kgm", standalone_mode=False)
    except Called as called:
        return called.args
    except (click.ClickException, main.invocation.Ended):
        pass
    return None


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_line_means_what_click_makes_of_it(words, monkeypatch):
    assert plain_line.understand(command_of(words), words[1:], {}) == by_click(words, monkeypatch)


@pytest.mark.parametrize("words", LEFT_TO_CLICK, ids=" ".join)
def test_what_is_not_plain_is_left_to_click(words):
    assert plain_line.understand(command_of(words), words[1:], {}) is None


@pytest.mark.parametrize("name", plain_line.PLAIN)
def test_random_lines_mean_what_click_makes_of_them(name, monkeypatch):
    chance = random.Random(7)
    understood = 0
    for _ in range(300):
        words = [name, *chance.choices(WORDS, k=chance.randrange(6))]
        ours = plain_line.understand(command_of(words), words[1:], {})
        if ours is not None:
            understood += 1
            assert ours == by_click(words, monkeypatch), words
    assert understood > 20


@pytest.mark.parametrize("value", ["json", "schema", "", "nonsense"])
def test_the_environment_counts_as_click_counts_it(value, monkeypatch):
    exported = {"KGM_OUTPUT": value, "KGM_TIMEOUT": "7s", "KGM_PROFILE": ""}
    for name, text in exported.items():
        monkeypatch.setenv(name, text)
    ours = plain_line.understand(command_of(["list"]), [], exported)
    assert (ours is None) == (value in ("schema", "nonsense"))
    if ours is not None:
        assert ours == by_click(["list"], monkeypatch)


@pytest.mark.parametrize("name", ["KGM_NO_HEADERS", "KGM_DEBUG"])
def test_switches_in_the_environment_are_left_to_click(name):
    assert plain_line.understand(command_of(["list"]), [], {name: "true"}) is None


@pytest.mark.parametrize("columns", [20, 50, 52, 60, 79, 80, 81, 100, 108, 109, 110, 111, 112, 200])
def test_the_overview_is_as_click_writes_it(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert tree.run_tree(["--help"]) == 0
    ours = overview.help_text(columns)
    assert ours in (None, out.getvalue())
    assert ours is not None or columns < 80


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["list", "-b", "127.0.0.1:1"], ["describe", "g", "-b", "x@y"]]
)
def test_they_run_without_what_is_slow_to_import(words):
    program = f"import sys; from kgm.cli.main import run; run({words!r}); print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], env=bare(), capture_output=True, text=True, check=True)
    imported = set(done.stderr.splitlines()[-1].split())
    assert "kgm.cli.main" in imported
    slow = set(SLOW)
    if words[0].startswith("--"):
        slow |= {"select", "unicodedata"}
    assert not imported & slow
    ours = sum(name.partition(".")[0] == "kgm" for name in imported)
    assert ours <= (25 if words[0].startswith("--") else 95)  # 18, 79 and 77; each takes 0.15 ms


@pytest.fixture(scope="module")
def server():
    with serve_in_thread(topics={"orders": 2}, settings={"group.initial.rebalance.delay.ms": 0}) as running:
        joiners = form_group(running, "answered", ["a", "b"], "orders")
        yield running
        for joiner in joiners:
            joiner.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["describe", "answered"],
        ["describe", "--all-groups", "--offsets", "-o", "wide"],
        ["list", "-o", "json"],
    ],
    ids=" ".join,
)
def test_they_finish_without_what_is_slow_to_import(words, server):
    """From the first byte to the last: the cluster answers."""
    program = (
        "import sys; before = {*sys.modules}; from kgm.cli.main import run; code = run(sys.argv[1:]);"
        "print(code, *sorted({*sys.modules} - before), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *words, "-b", server.bootstrap]
    done = subprocess.run(command, env=bare(), capture_output=True, text=True, check=True)
    code, *imported = done.stderr.splitlines()[-1].split()
    assert code == "0"
    assert "answered" in done.stdout
    assert "kgm.client.snapshots" in imported
    assert not {*imported} & SLOW


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["list", "-b", "127.0.0.1:1"], 5)])
def test_they_end_without_taking_everything_apart(words, code):
    """What would run when Python ends does not run; the output is complete, and so is the exit code."""
    program = "import atexit, sys; atexit.register(print, 'taken apart', file=sys.stderr); from kgm.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=bare(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, "taken apart" in done.stderr) == (code, False)
    assert done.stdout or done.stderr
