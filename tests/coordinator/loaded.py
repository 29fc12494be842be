"""An engine loaded from a log."""

from __future__ import annotations

from collections.abc import Iterable

from kgm.coordinator.loading import Loader, ReplayTarget
from kgm.records.batch import Batch


def replay_into(engine: ReplayTarget, batches: Iterable[Batch]) -> list[tuple[int, str]]:
    """Load a whole log in one call, and return what was skipped. Raises DecodeError as `Loader.replay` does."""
    loader = Loader(engine)
    for batch in batches:
        loader.replay(batch)
    for _ in loader.finish():
        pass
    return loader.unreadable
