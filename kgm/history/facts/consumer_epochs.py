"""The epochs of a group of the consumer protocol: rows of `silver_group_epoch`, from the record that raised one to the
target assignment that answers it, and to the moment when all members have what that gives them."""

from kgm.history.rows import Row, Rows

_RECENT = 50


class Epochs:
    """recent: the newest rows; older ones that are not settled yet never will be."""

    def __init__(self, rows: Rows, recent: list[Row]) -> None:
        self.rows, self.recent = rows, recent

    def rose(self, base: Row, value: Row, members: int, *, complete: bool) -> None:
        """A record of the group's epoch."""
        row = {
            **base, "epoch": value["epoch"], "metadata_hash": value["metadata_hash"], "assignment_epoch": None,
            "settled_offset": None, "members": members, "complete": complete,
        }  # fmt: skip
        self.rows.put("silver_group_epoch", row)
        self.recent = [*self.recent[-_RECENT:], row]

    def answered(self, base: Row, epoch: int) -> None:
        """A target assignment was computed."""
        for row in self.recent:
            if row["assignment_epoch"] is None and row["epoch"] <= epoch:
                row.update(assignment_epoch=epoch, assigned_offset=base["offset"], assigned_timestamp=base["timestamp"])
                self.rows.put("silver_group_epoch", row)

    def settled(self, base: Row) -> None:
        """Every member has what the target assignment gives it."""
        for row in self.recent:
            if row["assignment_epoch"] is not None and row["settled_offset"] is None:
                row.update(settled_offset=base["offset"], settled_timestamp=base["timestamp"])
                self.rows.put("silver_group_epoch", row)
