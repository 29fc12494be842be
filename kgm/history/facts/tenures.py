"""Seats of a group over time: a row of `silver_seat` for each member id that sat on one."""

from typing import Any

from kgm.history.rows import Row, Rows


class Seats:
    """The seats that are taken: open rows by seat, which are put again whenever they changed."""

    def __init__(self, open_rows: dict[str, Row] | None = None) -> None:
        self.open = open_rows or {}

    def take(self, rows: Rows, row: Row, **end: Any) -> None:
        """Somebody sits down, where nobody or somebody else sat (who ends as `end` says)."""
        seat = row["seat"]
        if seat in self.open:
            self.leave(rows, seat, row["from_offset"], row["from_timestamp"], row["from_generation"], **end)
        self.open[seat] = row
        rows.put("silver_seat", row)

    def leave(
        self, rows: Rows, seat: str, offset: int, timestamp: int, generation: int,
        *, cause: str = "unknown", confidence: str = "unknown",
    ) -> None:  # fmt: skip
        """The seat is empty from this record on."""
        row = self.open.pop(seat, None)
        if row is not None:
            row |= {
                "to_offset": offset, "to_timestamp": timestamp, "to_generation": generation,
                "end_cause": cause, "end_confidence": confidence,
            }  # fmt: skip
            rows.put("silver_seat", row)
