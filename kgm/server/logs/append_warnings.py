"""Tells the operator when records cannot be written to a log, and when they can again.

The requests that need the log are refused meanwhile, and clients retry them: without a warning, a full disk would look
like a coordinator that cannot be found."""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

#: A log that fails again and again is not reported more often than this. When a disk is nearly full, small batches
#: succeed between larger ones that fail.
_QUIET_S: Final = 60.0


class AppendWarnings:
    """Appends to a log run in this context, which notes how they end.

    log: what is written to, such as a folder. seconds: a clock that never goes backward."""

    def __init__(self, log: str, warn: Callable[[str], None], seconds: Callable[[], float]) -> None:
        self._log = log
        self._warn = warn
        self._seconds = seconds
        self._is_reported = False
        self._quiet_until_s = seconds()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            self.failed(error)
        elif error is None and self._is_reported:
            self._is_reported = False
            self._warn(f"{self._log}: records can be written again")

    def failed(self, error: OSError) -> None:
        """The log could not be written or flushed."""
        if self._is_reported or self._seconds() < self._quiet_until_s:
            return
        self._is_reported = True
        self._quiet_until_s = self._seconds() + _QUIET_S
        why = error.strerror or str(error)
        self._warn(f"{self._log}: records cannot be written, and requests that need it are refused: {why}")
