"""What each group was at the end of a history, or at a time in it, as `kgm describe` would have shown it: anything that
reads a description can read history, too."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kgm.history.store.classic_final_state import classic_groups
from kgm.history.store.consumer_final_state import consumer_groups
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import Tables
from kgm.model.snapshot import GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalGroup:
    """A group. unplayable: what the history lacks, so that the group cannot be simulated; None if nothing is known."""

    snapshot: GroupSnapshot
    unplayable: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The group as `kgm describe -o json` prints it, with `unplayable` if there is a reason."""
        group = self.snapshot.to_json()
        return group if self.unplayable is None else group | {"unplayable": self.unplayable}


def final_groups(tables: Tables, wanted: RowFilter) -> Iterator[FinalGroup]:
    """Each group, classic ones first, by id: its state as of its last record before `wanted.until_ms`. Groups that were
    deleted are left out."""
    for snapshot in classic_groups(tables, wanted):
        yield FinalGroup(snapshot=snapshot)
    for snapshot, unplayable in consumer_groups(tables, wanted):
        yield FinalGroup(snapshot=snapshot, unplayable=unplayable)
