"""How a long-running command is told to stop."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kgm.cli.invocation import Ended
from kgm.model.errors import OutputError

#: The signal that has interrupted the command, if one has.
_interrupted_by: int = signal.SIGINT
#: Whether SIGHUP has come, also after another signal.
_has_hung_up = False
#: How long SIGHUP may take after a write to a closed terminal has failed, in seconds: the kernel sends it next.
_SIGHUP_S: Final = 0.2
#: After how long a signal is sent again whose handler has not run, or ran where exceptions are ignored, in seconds.
_AGAIN_S: Final = 0.02


@contextlib.contextmanager
def stopped_by_sigterm(stop: threading.Event) -> Iterator[None]:
    """SIGTERM sets the event, so that the command shuts down cleanly, as systemd and Kubernetes expect. Only the main
    thread can have a handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled({signal.SIGTERM: lambda _: stop.set()}):
        yield


@contextlib.contextmanager
def _handled(handlers: Mapping[int, Callable[[int], None]]) -> Iterator[None]:
    """Handle these signals in the main thread, which must be the one that calls this.

    Python runs a handler between two steps of the main thread. It does not run while the main thread waits for a broker
    if the signal came just before the wait began, or if another thread got it. So another thread sends the signal to
    the main thread again, which ends such a wait, until its handler has run."""
    has_run, main = {number: threading.Event() for number in handlers}, threading.get_ident()

    def handle(number: int, _frame: object) -> None:
        has_run[number].set()
        handlers[number](number)

    def resend() -> None:
        while arrived := os.read(reader, 1):
            number = arrived[0]
            while number in has_run and not has_run[number].wait(_AGAIN_S):
                signal.pthread_kill(main, number)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=resend, daemon=True)
    thread.start()
    woken_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, handle) for number in handlers}
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken_before)
        os.close(writer)
        for each in has_run.values():
            each.set()
        thread.join()  # what it sent after the handlers are gone would end kgm
        os.close(reader)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interrupted_by_signals(*, sigterm_code: int | None = None) -> Iterator[None]:
    """SIGTERM and SIGHUP interrupt the command as Ctrl-C does, so that what was done is reported and recorded, and a
    terminal gets its cursor and screen back. The exit code is `interrupted_code()`, or after SIGTERM `sigterm_code`,
    for a command that runs until SIGTERM. It is the same if the terminal has hung up, so that nothing can be written to
    it any more.

    A signal that kgm was started to ignore (nohup) stays ignored. Only the main thread can have a handler."""
    global _interrupted_by, _has_hung_up
    _interrupted_by, _has_hung_up = signal.SIGINT, False
    is_interrupted = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int) -> None:
        global _interrupted_by, _has_hung_up  # noqa: PLW0603
        nonlocal is_interrupted
        _has_hung_up = _has_hung_up or number == signal.SIGHUP
        # A terminal that closes and systemd send several signals: the first must not be kept from its report, unless an
        # operator insists.
        is_first, is_interrupted = not is_interrupted, True
        if is_first:
            _interrupted_by = number
        if is_first or number == signal.SIGINT:
            raise KeyboardInterrupt

    def interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
        """Python ignores the exception of a handler that runs within the callback of a weak reference, such as those
        that the collection of garbage calls."""
        nonlocal is_interrupted
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            hook(unraisable)
            return
        is_interrupted = False
        threading.Timer(_AGAIN_S, signal.pthread_kill, [main, _interrupted_by]).start()

    hook, main = sys.unraisablehook, threading.get_ident()
    sys.unraisablehook = interrupt_again
    stops = (signal.SIGTERM, signal.SIGHUP)
    handlers = {int(number): interrupt for number in stops if signal.getsignal(number) is not signal.SIG_IGN}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handlers[signal.SIGINT] = interrupt
    try:
        with _handled(handlers):
            try:
                yield
            except (KeyboardInterrupt, OSError, OutputError) as error:
                if not isinstance(error, KeyboardInterrupt) and not (
                    signal.SIGHUP in handlers and _is_of_a_hangup(error)
                ):
                    raise
                if _interrupted_by == signal.SIGINT:
                    raise
                code = interrupted_code()
                if _interrupted_by == signal.SIGTERM and sigterm_code is not None:
                    code = sigterm_code
                raise Ended(code) from None  # typer ends every KeyboardInterrupt with 130
    finally:
        sys.unraisablehook = hook


def _is_of_a_hangup(error: BaseException) -> bool:
    """Whether the error is that of a write to a terminal that has hung up."""
    at: BaseException | None = error
    while at is not None and not (isinstance(at, OSError) and at.errno == errno.EIO):
        at = at.__cause__
    if at is not None and not _has_hung_up:
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(_SIGHUP_S)
    return at is not None and _has_hung_up


def interrupted_code() -> int:
    """The exit code of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    return 128 + _interrupted_by
