"""The epochs of a group of the consumer protocol, or of a streams or share group: rows of `silver_group_epoch`, from
the record that raised an epoch to the target assignment for it, and to the time when every member has what that gives
it."""

from dataclasses import replace

from kgm.history.row_parts import GroupRecord
from kgm.history.row_tables import RowCollector
from kgm.history.rows import GroupEpochRow

_KEPT = 50


class GroupEpochs:
    """recent: the newest rows; the group will no longer reach the target of an older one."""

    def __init__(self, rows: RowCollector, recent: list[GroupEpochRow]) -> None:
        self.rows, self.recent = rows, recent

    def raised(
        self, record: GroupRecord, epoch: int, metadata_hash: int, members: int | None, *, complete: bool
    ) -> None:
        """Add a record of the group's epoch. members: None if not known."""
        row = GroupEpochRow(
            **record.columns, epoch=epoch, metadata_hash=metadata_hash, members=members, complete=complete,
        )  # fmt: skip
        self.rows.put(row)
        self.recent = [*self.recent[-_KEPT:], row]

    def assigned(self, record: GroupRecord, epoch: int) -> None:
        """A target assignment was computed."""
        for number, row in enumerate(self.recent):
            if row.assignment_epoch is None and row.epoch <= epoch:
                self._put(
                    number,
                    replace(
                        row, assignment_epoch=epoch, assigned_offset=record.offset, assigned_timestamp=record.timestamp
                    ),
                )

    def reached(self, record: GroupRecord) -> None:
        """Every member has what the target assignment gives it."""
        for number, row in enumerate(self.recent):
            if row.assignment_epoch is not None and row.settled_offset is None:
                self._put(number, replace(row, settled_offset=record.offset, settled_timestamp=record.timestamp))

    def _put(self, number: int, row: GroupEpochRow) -> None:
        self.recent[number] = row
        self.rows.put(row)
