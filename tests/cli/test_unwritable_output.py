"""Every command under a stdout and a stderr that cannot be written: its exit code, and no traceback.

`remove-members` after something was removed is in tests/cli/commands/test_remove_members_output.py."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess

import pytest

from kgm.cli.main import finish, run
from tests import KGM
from tests.cli.environment import bare, forget_settings
from tests.cli.failing_streams import CLOSE, Failure, failing_streams
from tests.cli.test_every_command import COMMANDS, LEAVES, arguments, cluster, folder, takes_a_while  # noqa: F401  (fixtures)
from tests.needs import needs

pytestmark = pytest.mark.slow

ERRORS = (errno.ENOSPC, errno.EPIPE, errno.EBADF, errno.EIO)
FORMATS = ("table", "json", "ndjson")
#: doctor finds something in the groups of this cluster.
FINDINGS = {("doctor",): 8}
LOST = 1
#: What the shell does to the streams: whether a result that cannot be written is an error.
REDIRECTIONS = {
    ">/dev/full": True, ">&-": True, "<&- >&- 2>&-": True, "2>&-": False,
}  # fmt: skip


#: How stdout and stderr fail, by the error.
SPOILED = (
    (lambda error: Failure(0, error), None),
    (lambda error: Failure(0, error), lambda _: Failure(0, errno.ENOSPC)),
    (lambda error: Failure(CLOSE, error), None),
    (None, lambda error: Failure(0, error)),
)


def natural(words):
    return FINDINGS.get(words, 0)


@pytest.mark.few(1)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_write_may_fail(words, cluster, folder, monkeypatch):  # noqa: F811
    line = arguments(words, cluster, folder)
    if line is None:
        pytest.skip("starts Spark")
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
    if words == ("config", "list"):  # without a profile there is nothing to write
        profile = pathlib.Path(folder, "config/kgm/config.toml")
        profile.parent.mkdir(parents=True, exist_ok=True)
        profile.write_text('[profiles.a]\nbootstrap_server = "a:9092"\n')
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{folder}/config")
    formats = FORMATS[:1] if takes_a_while(words) else FORMATS
    ways = [(text_format, *streams) for streams in SPOILED for text_format in formats]
    # Every stream with every error would be four times as many runs; over all commands each pair is tried often.
    first = COMMANDS.index(words)
    for number, (text_format, out_spoiled, err_spoiled) in enumerate(ways):
        error = ERRORS[(first + number) % len(ERRORS)]
        out_failure, err_failure = (None if make is None else make(error) for make in (out_spoiled, err_spoiled))
        case = (text_format, out_failure, err_failure)
        with failing_streams(monkeypatch, out_failure, err_failure) as (out, err):
            code = finish(run([*line, "-o", text_format]))
        shown = out.text + err.text
        assert "Traceback" not in shown, (case, shown)
        assert "internal error" not in shown, (case, shown)
        if out_failure is None or error == errno.EPIPE:
            assert code in (natural(words), 0), (case, shown)
        elif out_failure.at == CLOSE:
            assert code == (natural(words) or LOST), (case, shown)
        else:
            assert code == LOST, (case, shown)
            if err_failure is None:
                assert f"{said(words)}: the output cannot be written: {os.strerror(error)}" in err.text, case


def said(words):
    """How the failure is announced: a rollout continues, and its journal has everything."""
    return "warning" if words == ("rollout",) else "error"


#: History commands print as the others do, and start slowly.
_SPOILED = [
    (words, redirection)
    for words in COMMANDS
    for redirection in REDIRECTIONS
    if words[0] != "history" or redirection == ">/dev/full"
]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("words", "redirection"), _SPOILED, ids=[f"{' '.join(words)} {redirection}" for words, redirection in _SPOILED]
)
def test_streams_that_the_shell_has_spoiled(words, redirection, cluster, folder):  # noqa: F811
    line = arguments(words, cluster, folder)
    if line is None:
        pytest.skip("starts Spark")
    done = subprocess.run(
        [needs("bash"), "-c", f'"$@" {redirection}', "bash", *KGM, *line],
        capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
        env={**bare(), "XDG_STATE_HOME": f"{folder}/state", "XDG_CACHE_HOME": folder},
    )  # fmt: skip
    assert done.returncode == (LOST if REDIRECTIONS[redirection] else natural(words)), done
    for text in ("Traceback", "internal error", "Exception ignored"):
        assert text not in done.stdout + done.stderr
    if redirection in (">/dev/full", ">&-"):
        why = os.strerror(errno.ENOSPC if "full" in redirection else errno.EBADF)
        assert f"{said(words)}: the output cannot be written: {why}" in done.stderr


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("words", "redirection", "code"),
    [
        (["--help"], ">/dev/full", 1), (["--help"], ">&-", 1), (["--version"], ">/dev/full", 1),
        (["list", "--help"], ">/dev/full", 1), (["list", "--help"], ">&- 2>&-", 1), (["list", "-o", "schema"], ">&-", 1),
        (["serve", "--topic", "t:1", "--listen", "127.0.0.1:0"], ">/dev/full", 1),
        (["serve", "--topic", "t:1", "--listen", "127.0.0.1:0"], ">&- 2>&-", 1),
        (["demo"], ">/dev/full", 1), (["list", "-b", "127.0.0.1:1", "--timeout", "1s"], "2>/dev/full", 5),
        (["list", "-b", "127.0.0.1:1", "--timeout", "1s"], ">&- 2>&-", 5), (["list", "--no-such"], "2>&-", 2),
        (["list", "-b", "127.0.0.1:1", "--timeout", "1s", "-o", "json"], ">/dev/full", 5),
        (["completion", "bash"], ">/dev/full", 1), (["completion", "bash"], ">&- 2>&-", 1),
        (["help", "--man", "list"], ">/dev/full", 1), (["help", "list"], ">&-", 1),
    ],
)  # fmt: skip
def test_help_servers_and_errors(words, redirection, code, tmp_path):
    done = subprocess.run(
        [needs("bash"), "-c", f'"$@" {redirection}', "bash", *KGM, *words],
        capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
        env={**bare(), "XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == code, done
    for text in ("Traceback", "internal error", "Exception ignored"):
        assert text not in done.stdout + done.stderr


def test_the_commands_are_all_there():
    assert {words[0] for words in LEAVES} - {words[0] for words in COMMANDS} == {
        "serve", "demo", "completion", "help",
    }  # fmt: skip
