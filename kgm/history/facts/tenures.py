"""Which process was behind an identity, and when: a row of `silver_seat` for each tenure of a member id.

A tenure is the time in which one member id is a member under an identity: under a group_instance_id until another
process takes it over, or, for a dynamic member, as long as the member itself."""

from dataclasses import replace

from kgm.history.row_tables import RowCollector
from kgm.history.rows import TenureRow


class Tenures:
    """The tenures that continue, by identity."""

    def __init__(self, rows: RowCollector, open_rows: dict[str, TenureRow]) -> None:
        self.rows, self.open = rows, open_rows

    def begin(self, row: TenureRow, *, cause: str, confidence: str) -> None:
        """A member id now has the identity; cause: why that ends the previous tenure, if there is one."""
        self.end(row.seat, row.from_offset, row.from_timestamp, row.from_generation, cause=cause, confidence=confidence)
        self.open[row.seat] = row
        self.rows.put(row)

    def end(self, identity: str, offset: int, timestamp: int, generation: int, *, cause: str, confidence: str) -> None:
        """No member has the identity from this record on."""
        row = self.open.pop(identity, None)
        if row is not None:
            self.rows.put(
                replace(
                    row, to_offset=offset, to_timestamp=timestamp, to_generation=generation, end_cause=cause,
                    end_confidence=confidence,
                )
            )  # fmt: skip

    def finish(self) -> None:
        """Put the rows that are still open at the end of the records."""
        self.rows.put_all(self.open.values())
