"""The outcome of a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kgm.model.errors import KgmError
from kgm.operations.change.result import OneResult, has_changed

R = TypeVar("R", bound=OneResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport(Generic[R]):
    """results: one for each id, in the order of the request. error: one for the run, None if all succeeded. exit_code:
    what the command exits with. interrupted: by Ctrl-C after a request was sent."""

    results: tuple[R, ...]
    exit_code: int
    error: KgmError | None = None
    warnings: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def has_changed(self) -> bool:
        """Whether the cluster was changed, or may have been."""
        return has_changed(self.results)
