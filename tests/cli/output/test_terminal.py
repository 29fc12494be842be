"""At pseudo terminals: narrow ones, colour, prompts, progress; and with very many rows."""

from __future__ import annotations

import fcntl
import io
import itertools
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import pytest

from kgm.cli.main import run
from kgm.cli.options.run_options import RunOptions
from kgm.cli.output import progress
from kgm.cli.output import report as output
from kgm.cli.output.groups.rows import MEMBER_KEYS
from kgm.cli.output.groups.tables import members_table
from kgm.cli.output.report import Report, rendered
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.text.sanitize import clean
from tests.cli.environment import bare
from tests.cli.hostile_cluster import CROWD, Hostile, hostile_cluster
from tests.cpu_time import allowed
from tests.selection import sized
from tests.text.hostile import OUR_COLORS, WIRE, hidden
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Hostile:
    with hostile_cluster(tmp_path_factory.mktemp("logs")) as found:
        yield found


def at_terminal(*words: str, columns: int, answer: str = "", env: dict[str, str] | None = None) -> tuple[int, str]:
    """(exit code, everything that the terminal received) of kgm with all three streams at a terminal of that width."""
    terminal, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    settings = termios.tcgetattr(other)
    settings[1] &= ~termios.OPOST  # the lines as they were written
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(other, termios.TCSANOW, settings)
    process = subprocess.Popen(
        [sys.executable, "-m", "kgm", *words], stdin=other, stdout=other, stderr=other,
        env={**bare(), "TERM": "xterm", "XDG_CACHE_HOME": "/dev/null", **(env or {})},
    )  # fmt: skip
    os.close(other)
    os.write(terminal, answer.encode())
    seen = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the last process has closed it
            break
        if not chunk:
            break
        seen += chunk
    os.close(terminal)
    return process.wait(timeout=60), seen.decode()


TABLES = [
    ("describe", CROWD),
    ("list",),
    ("list", "-o", "wide"),
    ("describe", "--all-groups", "--state"),
    ("describe", CROWD, "--offsets"),
]


#: Erases a line of progress, which appears once something takes long.
ERASE = "\r\x1b[K"


def without_colors(text: str) -> str:
    """The text with each line of progress on a row of its own."""
    return OUR_COLORS.sub("", text).replace(ERASE, "\n")


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "words"),
    sized(
        list(zip(itertools.cycle([50, 80, 200]), TABLES, strict=False)), list(itertools.product([50, 80, 200], TABLES))
    ),
    ids=lambda value: value if isinstance(value, int) else " ".join(value),
)
def test_no_row_is_wider_than_the_terminal(cluster, columns, words):
    code, seen = at_terminal(*words, "-b", cluster.bootstrap, columns=columns)
    assert code == 0
    assert "\x1b[1m" in seen
    text = without_colors(seen)
    assert hidden(text) == []
    assert max(map(len, text.splitlines())) <= columns
    squeezed = re.sub(r"\s", "", text)
    if (
        words == ("describe", CROWD) and columns < 80
    ):  # each row is a block of its own: nothing stands between the pieces
        assert all(re.sub(r"\s", "", clean(name)) in squeezed for name in WIRE)


@pytest.mark.slow
def test_no_color(cluster):
    _, seen = at_terminal("describe", CROWD, "-b", cluster.bootstrap, columns=80, env={"NO_COLOR": "1"})
    assert "\x1b" not in seen.replace(ERASE, "")


@pytest.mark.slow
def test_a_prompt_shows_names_cleaned(cluster):
    words = (
        "remove-members",
        CROWD,
        "--match",
        "*",
        "--guard-window",
        "0s",
        "--assume-stopped",
        "-b",
        cluster.bootstrap,
    )
    code, seen = at_terminal(*words, columns=80, answer="n\n")
    assert code == 6
    assert "Remove 34 members? [y/N] " in seen
    assert "declined: nothing was removed" in seen
    assert hidden(without_colors(seen)) == []


@pytest.mark.slow
def test_watching_at_a_terminal_shows_names_cleaned(cluster):
    code, seen = at_terminal(
        "watch", CROWD, "--timeout", "700ms", "--interval", "200ms", "-b", cluster.bootstrap, columns=120
    )
    assert code in (0, 8)
    left = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen).replace("\r", "")  # what redrawing takes
    assert hidden(left) == []
    acting = [name for name in (CROWD, *WIRE) if hidden(name, but="") and not name.startswith("\x1b[2J")]
    assert [name for name in acting if name in seen] == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_after_a_moment_and_wiped(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress(RunOptions(), "describing\x1b[2J") as line:
        line.count(3, 7)
        until(lambda: "3 of 7" in sys.stderr.getvalue(), lambda: f"no progress: {sys.stderr.getvalue()!r}", 30)
    seen = sys.stderr.getvalue()
    assert "describing\\x1b[2J 3 of 7 ... 0s" in seen
    assert seen.endswith(ERASE)
    assert hidden(seen.replace(ERASE, "")) == []


def test_progress_that_takes_long_and_has_an_end_has_a_bar_and_a_rate(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "BAR_AFTER_S", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with progress.progress(RunOptions(), "simulating") as line:
        line.count(3, 6)
        until(lambda: "3 of 6" in sys.stderr.getvalue(), lambda: f"no progress: {sys.stderr.getvalue()!r}", 30)
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", sys.stderr.getvalue())
    (bar, text) = next(each for each in drawn.split(ERASE) if "3 of 6" in each).split(" ", 1)
    assert (len(bar), len(set(bar[:11]))) == (24, 1), drawn
    assert re.fullmatch(r"simulating 3 of 6, [\d.e+]+/s, \d+s left \.\.\. \d+s", text), text


@pytest.mark.parametrize(("stream", "term"), [(io.StringIO, "xterm"), (Terminal, "dumb")])
def test_no_progress_without_a_terminal(monkeypatch, stream, term):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setenv("TERM", term)
    with progress.progress(RunOptions(), "describing") as line:
        line.count(1)
    assert sys.stderr.getvalue() == ""


def group(name: str, members: int) -> GroupSnapshot:
    found = tuple(
        MemberSnapshot(member_id=f"seat-{i:05d}-1b4e28ba-2fa1-11d2-883f-0016d3cca427", group_instance_id=f"seat-{i:05d}", client_id="app",
                       client_host="10.0.0.1", status="stable", topics=("orders",), assignment={"orders": (2 * i, 2 * i + 1)}, lag=i)
        for i in range(members)
    )  # fmt: skip
    return GroupSnapshot(group_id=name, type="classic", state="Stable", assignor="range", members=found)


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("width", [None, 80, 50])
def test_ten_thousand_members_take_a_moment(monkeypatch, width):
    """Measured: 0.3 s for a table, 0.9 s folded or in blocks."""
    style = output.TableStyle(width=width, color=width is not None)
    monkeypatch.setattr(output, "style_for", lambda _: style)
    report = Report(schema="kgm.describe/v1", data={}, tables=[members_table(group("big", 10_000))])
    start = time.process_time()
    text = rendered(report, RunOptions())
    assert time.process_time() - start < allowed(6)
    assert "seat-09999" in text


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("text_format", ["json", "yaml", "csv", "ndjson"])
def test_ten_thousand_members_as_data_take_a_moment(text_format):
    """Measured: 0.3 s for JSON, 0.7 s for YAML (PyYAML would take 25 s)."""
    big = group("big", 10_000)
    data = big.to_json()
    report = Report(schema="kgm.describe/v1", data={"groups": [data]}, keys=MEMBER_KEYS, items=data["members"])
    start = time.process_time()
    text = rendered(report, RunOptions(output=text_format))
    assert time.process_time() - start < allowed(6)
    assert "seat-09999" in text


def test_debug_shows_a_cleaned_traceback(capsys, tmp_path):
    assert run(["diff", f"{tmp_path}/no\x1b[2Jne", f"{tmp_path}/none", "--debug"]) == 2
    shown = capsys.readouterr()
    assert "Traceback" in shown.err
    assert hidden(shown.err) == []
