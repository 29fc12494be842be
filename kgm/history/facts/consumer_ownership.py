"""Who has which partition in a group of the consumer protocol, to the record: a partition is given up when its member's
record has it no more, neither assigned nor pending revocation, or when the member stopped (epoch -2) or is gone."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

from kgm.history.facts.commit_windows import Window
from kgm.history.rows import Row, Rows

#: What a member has: epoch, state, and [topic id in hex, partition] pairs assigned and pending revocation.
Held = dict[str, Any]
Names = Callable[[str, int], str | None]


def places_of(held: Held | None) -> list[tuple[str, int]]:
    """What a member may be consuming."""
    if held is None or held["state"] == "away":
        return []
    return [(topic, number) for topic, number in (*held["assigned"], *held["pending"])]


class ConsumerOwners:
    """open: the rows of partitions that have an owner. free: since when the others have none, and who was the last one.
    commits: of each
    partition by name the times of the first and the last commit, and their number, since its owner has it."""

    def __init__(self, rows: Rows, base: Row, names: Names, state: Row | None) -> None:
        state = state or {}
        self.rows, self.base, self.names = rows, base, names
        self.open = {(topic, number): row for topic, number, row in state.get("open", ())}
        self.free: dict[tuple[str, int], tuple[int, str]] = {
            (topic, number): (at, seat) for topic, number, at, seat in state.get("free", ())
        }
        self.commits: dict[tuple[str, int], list[int]] = {
            (topic, number): seen for topic, number, seen in state.get("commits", ())
        }

    def state(self) -> Row:
        """As JSON has it."""
        return {
            "open": [[*place, row] for place, row in self.open.items()],
            "free": [[*place, *since] for place, since in self.free.items()],
            "commits": [[*place, seen] for place, seen in self.commits.items()],
        }

    def committed(self, window: Window) -> None:
        """Commits of a partition."""
        seen = self.commits.get(window.place)
        if seen is None:
            self.commits[window.place] = [window.first, window.last, window.count]
        else:
            seen[1] = window.last
            seen[2] += window.count

    def commits_of(self, places: Sequence[tuple[str, int]], offset: int) -> tuple[int | None, int | None]:
        """(the last commit of the partitions before an offset, how far apart those of the busiest were on average)."""
        found = []
        for topic, number in places:
            name = self.names(topic, offset)
            seen = None if name is None else self.commits.get((name, number))
            if seen is not None:
                found.append(seen)
        if not found:
            return None, None
        first, last, count = max(found, key=_count)
        return max(seen[1] for seen in found), (last - first) // (count - 1) if count > 2 else None

    def has(self, member_id: str, seat: str, held: Held, base: Row, generation: int, *, known: bool) -> int:
        """What a member has from this record on; how long what it got from others had no owner, summed up in ms."""
        now = set(places_of(held))
        for place in [place for place, row in self.open.items() if row["member_id"] == member_id]:
            if place not in now:
                self._close(place, base, generation)
        unowned = 0
        for place in sorted(now):
            row = self.open.get(place)
            if row is not None and row["member_id"] == member_id:
                continue
            if row is not None:
                self._close(place, base, generation)
            since = self.free.pop(place, None)
            if since is not None and since[1] != seat:
                unowned += max(base["timestamp"] - since[0], 0)
            self._open(place, member_id, seat, base, generation, known=known)
        return unowned

    def gone(self, member_id: str, base: Row, generation: int) -> None:
        """A member is not there any more."""
        for place in [place for place, row in self.open.items() if row["member_id"] == member_id]:
            self._close(place, base, generation)

    def finish(self) -> None:
        """Put what is open."""
        for (topic, _), row in self.open.items():
            row["topic"] = row["topic"] or self.names(topic, _ANY)
            self.rows.put("silver_owner", row)

    def _open(
        self, place: tuple[str, int], member_id: str, seat: str, base: Row, generation: int, *, known: bool
    ) -> None:
        topic, number = place
        self.open[place] = row = {
            **self.base, "topic": self.names(topic, base["offset"]), "topic_id": bytes.fromhex(topic),
            "topic_partition": number, "place": urlsafe_b64encode(bytes.fromhex(topic)).decode().rstrip("="),
            "seat": seat, "member_id": member_id, "from_offset": base["offset"], "from_timestamp": base["timestamp"],
            "from_generation": generation, "known_from": known, "exact": True, "to_offset": None,
        }  # fmt: skip
        if row["topic"] is not None:
            self.commits.pop((row["topic"], number), None)
        self.rows.put("silver_owner", row)

    def _close(self, place: tuple[str, int], base: Row, generation: int | None) -> None:
        row = self.open.pop(place)
        row |= {
            "to_offset": base["offset"], "to_timestamp": base["timestamp"], "to_earliest_timestamp": base["timestamp"],
            "to_generation": generation, "topic": row["topic"] or self.names(place[0], base["offset"]),
        }  # fmt: skip
        self.free[place] = base["timestamp"], row["seat"]
        self.rows.put("silver_owner", row)


#: At the end of what was read: whatever commits told.
_ANY = 1 << 62


def _count(seen: list[int]) -> int:
    return seen[2]
