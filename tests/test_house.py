"""The shape of the house: layers, purity, and modules that stay small enough to know."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
HAND_WRITTEN = [
    path
    for path in sorted((ROOT / "kgm").rglob("*.py"))
    if path.parent.name != "messages" and path.name != "api_table.py"
]


@pytest.mark.parametrize("path", HAND_WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_stay_small(path):
    """The options in a command's signature are data: what counts of a function is its body."""
    text = path.read_text()
    assert len(text.splitlines()) <= 500
    long = [
        f"{node.name}: {node.end_lineno - node.body[0].lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.body[0].lineno + 1 > 60
    ]
    assert long == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["lint-imports"], ["ruff", "check", "."], ["mypy"]], ids=lambda command: command[0]
)
def test_checkers_pass(command):
    tool = pathlib.Path(sys.executable).with_name(command[0])
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_no_command_imports_what_is_heavy_before_it_runs():
    """So that the help of any command, and its schema, are there at once, whatever commands are added."""
    code = (
        "import sys; from tools.manual.tree import click_tree; assert len(click_tree().commands) > 8;"
        "heavy = {'asyncio', 'ssl', 'socket', 'rich.console', 'tabulate', 'confluent_kafka', 'pyspark', 'pyarrow', 'pandas', 'numpy',"
        " 'yaml', 'kgm.protocol.codec', 'kgm.client', 'kgm.server', 'kgm.simulation', 'kgm.coordinator', 'kgm.history.derive'};"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""


def test_help_does_not_import_what_it_does_not_need():
    """Start-up is a promise: --help stays clear of everything heavy."""
    code = (
        "import sys; from kgm.cli.main import run; run(['--help']);"
        "heavy = {'asyncio', 'ssl', 'rich.console', 'tabulate', 'confluent_kafka', 'pyspark', 'numpy', 'yaml', 'kgm.protocol.codec'};"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "Usage: kgm" in done.stdout
    assert done.stderr == ""
