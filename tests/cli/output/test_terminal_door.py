"""Only the output modules write to the terminal."""

import re

from tests.cli.completion.shells import ROOT

#: One line of JSON, the version, and events that are cleaned where they are made.
_MAY_WRITE = {"output/streams.py", "output/progress.py", "main.py", "commands/serve.py", "output/watch/event_lines.py"}


def test_only_these_modules_write_to_the_terminal():
    folder = ROOT / "kgm/cli"
    calls = re.compile(r"sys\.(stdout|stderr)\.write|\bprint\(|\becho\(")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if calls.search(path.read_text())}
    assert found - {"output/watch/screen.py"} <= _MAY_WRITE  # screen.py prints texts of rich, which interpret nothing
