"""Signals interrupt a command as Ctrl-C does. tests/cli/commands has what that means for commands that change something."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref

import pytest

from kgm.cli.invocation import Ended
from kgm.cli.output.streams import output_error
from kgm.cli.stop_signal import interrupted_by_signals, interrupted_code, stopped_by_sigterm
from kgm.model.errors import OutputError
from tests import KGM, ROOT


@pytest.fixture(autouse=True)
def handlers():
    """Nothing may end the tests, whatever a handler does."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_exit_code_is_that_of_the_signal(number, code):
    with pytest.raises(Ended) as ended, interrupted_by_signals():
        signal.raise_signal(number)
    assert (ended.value.code, interrupted_code()) == (code, code)
    with interrupted_by_signals():
        assert interrupted_code() == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 129)])
def test_sigterm_is_how_some_commands_end(number, code):
    with pytest.raises(Ended) as ended, interrupted_by_signals(sigterm_code=0):
        signal.raise_signal(number)
    assert ended.value.code == code


def test_only_the_first_signal_interrupts():
    """A terminal that closes sends SIGHUP more than once; the first is being answered with a report."""
    with interrupted_by_signals():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        assert interrupted_code() == 143


def test_a_signal_after_ctrl_c_does_not_keep_it_from_its_report():
    with interrupted_by_signals():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        assert interrupted_code() == 130
        with pytest.raises(KeyboardInterrupt):  # an operator insists
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_that_comes_where_exceptions_are_ignored_is_not_lost(number, code):
    """Such as while garbage is collected: its callbacks are the next Python code that runs."""

    class Garbage:
        pass

    def wait_while_it_is_collected():
        garbage = Garbage()
        callback = weakref.ref(garbage, lambda _: signal.raise_signal(number))
        del garbage
        assert callback() is None
        time.sleep(60)

    with pytest.raises((Ended, KeyboardInterrupt)) as ended, interrupted_by_signals():
        wait_while_it_is_collected()
    assert (getattr(ended.value, "code", 130), interrupted_code()) == (code, code)


def lost(number, is_handled):
    """A socket to read from, and a signal after which the reader goes on waiting, as after one that comes just before a
    wait: another thread gets it, and Python notes it for the main thread. What is read is whether it was handled in time."""
    waiting, other = socket.socketpair()

    def send():
        signal.pthread_kill(threading.get_ident(), number)
        with other:
            other.sendall(b"in time" if is_handled.wait(30) else b"too late")

    threading.Timer(0.1, send).start()
    return waiting


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_does_not_end_a_wait_interrupts_it_all_the_same(number):
    is_handled = threading.Event()
    with lost(number, is_handled) as waiting:
        with pytest.raises(Ended) as ended, interrupted_by_signals():
            waiting.recv(10)
        is_handled.set()
        assert (ended.value.code, waiting.recv(10)) == (128 + number, b"in time")


def test_sigterm_that_does_not_end_a_wait_stops_a_command_all_the_same():
    stop = threading.Event()
    with lost(signal.SIGTERM, stop) as waiting, stopped_by_sigterm(stop):
        assert waiting.recv(10) == b"in time"


def test_other_exceptions_that_are_ignored_are_told_as_before(mocker):
    hook = mocker.patch("sys.unraisablehook")

    class Garbage:
        def __del__(self):
            raise ValueError

    with interrupted_by_signals():
        Garbage()
    assert isinstance(hook.call_args.args[0].exc_value, ValueError)


def write(number):
    """Fail as a write to stdout does, with an error of the operating system."""
    error = OSError(number, os.strerror(number))
    raise output_error(error) from error


def write_after(sent, number):
    """A command that is interrupted, and cannot write while it unwinds."""
    with interrupted_by_signals():
        try:
            if sent is not None:
                signal.raise_signal(sent)
        finally:
            write(number)


def write_before(sent, number):
    """The kernel sends the signal right after the write has failed."""
    with interrupted_by_signals():
        threading.Timer(0.02, signal.raise_signal, [sent]).start()
        write(number)


@pytest.mark.parametrize("run", [write_before, write_after])
def test_a_terminal_that_hangs_up_is_no_error_of_the_output(run):
    with pytest.raises(Ended) as ended:
        run(signal.SIGHUP, errno.EIO)
    assert ended.value.code == 129


@pytest.mark.parametrize(
    ("sent", "number"), [(None, errno.EIO), (signal.SIGTERM, errno.EIO), (signal.SIGHUP, errno.ENOSPC)]
)
def test_a_file_that_cannot_be_written_stays_an_error(sent, number):
    with pytest.raises(OutputError):
        write_after(sent, number)


def test_a_signal_that_is_ignored_stays_ignored():
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_by_signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_the_handlers_are_as_before_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with interrupted_by_signals():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


#: A `sitecustomize` with which Ctrl-C comes when a module is about to be imported.
_CTRL_C_AT = """
import signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
_STARTS = {
    "script": [sys.executable, "-c", "from kgm.cli.entry import main; main()"],
    "module": KGM,
}


@pytest.mark.parametrize("start", _STARTS)
@pytest.mark.parametrize("module", ["kgm.model.gc_threshold", "kgm.cli.options.word_order", "typer"])
def test_ctrl_c_while_kgm_is_imported(start, module, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(_CTRL_C_AT.format(module=module))
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [*_STARTS[start], "--version"], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
