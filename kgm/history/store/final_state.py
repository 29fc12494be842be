"""What each group was at the end of a history, or at a time in it, as `kgm describe -o json` prints a group: so that
everything which reads a description reads history too."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.store.consumer_final_state import consumer_groups
from kgm.history.store.store import Asked, Tables

_AT_THE_END = ("partition", "offset", "timestamp", "group_id", "kind", "generation", "protocol_type", "protocol")
_GONE = "tombstone"
#: Every key of a group.
_NOTHING: dict[str, Any] = {
    "group_id": "", "type": "classic", "state": "unknown", "protocol_type": None, "assignor": None, "coordinator": None,
    "generation": None, "group_epoch": None, "assignment_epoch": None, "session_timeout_ms": None,
    "rebalance_timeout_ms": None, "topics": [], "members": [], "offsets": [],
}  # fmt: skip
Json = dict[str, Any]


def end_groups(tables: Tables, asked: Asked) -> Iterator[Json]:
    """A group each, classic ones first, by id: what its last record says, of those before `asked.until_ms`. Groups that
    were deleted are left out. Session timeouts that differ within a group become the shortest one."""
    last = _last(tables.table("silver_snapshot", asked, _AT_THE_END))
    members = _members(tables, asked, last) if len(last) else {}
    for row in last.sort_by("group_id").to_pylist():
        if row["kind"] != _GONE:
            yield _group(row, members.get((row["partition"], row["offset"]), []))
    for group in consumer_groups(tables, asked):
        yield _NOTHING | group


def _last(snapshots: pa.Table) -> pa.Table:
    """The last snapshot of each group."""
    if not len(snapshots):
        return snapshots
    ends = snapshots.group_by(["partition", "group_id"]).aggregate([("offset", "max")])
    ends = ends.rename_columns(["partition", "group_id", "offset"])
    return snapshots.join(ends, keys=["partition", "group_id", "offset"], join_type="inner").combine_chunks()


def _members(tables: Tables, asked: Asked, last: pa.Table) -> Mapping[tuple[int, int], list[Json]]:
    """The members in those snapshots, in the order in which the coordinator has them."""
    rows = tables.table("silver_member", asked)
    place = pa.table({"partition": last.column("partition"), "offset": last.column("offset")})
    # A join does not keep the order of rows.
    numbered = rows.select(["partition", "offset"]).append_column("row", pa.array(range(len(rows)), pa.int64()))
    chosen = numbered.join(place, keys=["partition", "offset"], join_type="inner").column("row")
    found: dict[tuple[int, int], list[Json]] = defaultdict(list)
    for row in rows.take(chosen.take(pc.sort_indices(chosen))).to_pylist():
        found[row["partition"], row["offset"]].append(row)
    return found


def _group(row: Json, members: list[Json]) -> Json:
    """By the names of `kgm.model.snapshot`."""
    sessions = Counter(member["session_timeout_ms"] for member in members)
    partitions: dict[str, int] = {}
    for member in members:
        for topic, numbers in _taken(member["assigned"]).items():
            partitions[topic] = max([partitions.get(topic, 0), *(number + 1 for number in numbers)])
    return {
        **_NOTHING, "group_id": row["group_id"], "state": "Stable" if members else "Empty",
        "protocol_type": row["protocol_type"] or None, "assignor": row["protocol"], "generation": row["generation"],
        "session_timeout_ms": min(sessions, default=None),
        "rebalance_timeout_ms": max((member["rebalance_timeout_ms"] for member in members), default=None),
        "topics": [{"name": name, "partitions": count} for name, count in sorted(partitions.items())],
        "members": [_member(member, place) for place, member in enumerate(members)],
    }  # fmt: skip


def _member(row: Json, place: int) -> Json:
    return {
        "group_instance_id": row["group_instance_id"], "member_id": row["member_id"], "client_id": row["client_id"],
        "client_host": row["client_host"], "rack": row["rack_id"] or None, "member_epoch": None, "status": "stable",
        "subscription": {"topics": sorted(set(row["topics"] or ())), "regex": None},
        "assignment": _taken(row["assigned"]), "target_assignment": None, "lag": None, "protocol": "classic",
        # librdkafka writes an empty rack where others write null.
        "client_library": "librdkafka" if row["rack_id"] == "" else None, "listed_at": place,
        "listed_target": None,
    }  # fmt: skip


def _taken(assigned: Iterable[Mapping[str, Any]] | None) -> dict[str, list[int]]:
    return {each["topic"]: sorted(each["partitions"]) for each in assigned or ()}
