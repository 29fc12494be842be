"""Only the output modules write to the terminal."""

import re

from tests.cli.completion.shells import ROOT

_CALLS = re.compile(r"sys\.(stdout|stderr)\.write|\bprint\(|\becho\(")
#: One line of JSON, the version, and events that are cleaned where they are made.
_MAY_WRITE = {"output/streams.py", "output/progress.py", "main.py", "commands/serve.py", "output/watch/event_lines.py"}


def writers(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.py") if _CALLS.search(path.read_text())}


def test_only_these_modules_write_to_the_terminal():
    screens = {"output/watch/screen.py", "output/top/screen.py"}  # which print rich's plain texts
    assert writers(ROOT / "kgm/cli") - screens <= _MAY_WRITE


def test_no_operation_prints():
    assert writers(ROOT / "kgm/operations") == set()
