"""What each classic group was at the end of a history, or at a time in it: see `final_state`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from kgm.clients.recognition import MemberEvidence, partly_known, recognise
from kgm.history.reconstruct.classic_snapshots import SnapshotKind
from kgm.history.row_tables import columns_of, read_rows
from kgm.history.rows import MemberRow, TableRow
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import Tables
from kgm.model.client_library import ClientLibrary
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.protocol.subscription import PROTOCOL_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot(TableRow):
    table: ClassVar[str] = "silver_snapshot"
    partition: int
    offset: int
    timestamp: int
    group_id: str
    kind: str
    generation: int
    protocol_type: str | None
    protocol: str | None


def classic_groups(tables: Tables, wanted: RowFilter) -> Iterator[GroupSnapshot]:
    """Each group, by id. If session timeouts differ within a group, the shortest one is used."""
    last = _last(tables.table(_Snapshot.table, wanted, columns_of(_Snapshot)))
    members = _members(tables, wanted, last) if len(last) else {}
    for row in read_rows(_Snapshot, last.sort_by("group_id")):
        if row.kind != SnapshotKind.TOMBSTONE.value:
            yield _group(row, members.get((row.partition, row.offset), []))


def _last(snapshots: pa.Table) -> pa.Table:
    """The last snapshot of each group."""
    if not len(snapshots):
        return snapshots
    ends = snapshots.group_by(["partition", "group_id"]).aggregate([("offset", "max")])
    ends = ends.rename_columns(["partition", "group_id", "offset"])
    return snapshots.join(ends, keys=["partition", "group_id", "offset"], join_type="inner").combine_chunks()


def _members(tables: Tables, wanted: RowFilter, last: pa.Table) -> Mapping[tuple[int, int], list[MemberRow]]:
    """The members in those snapshots, in the coordinator's order."""
    rows = tables.table(MemberRow.table, wanted)
    place = pa.table({"partition": last.column("partition"), "offset": last.column("offset")})
    # A join does not keep the order of rows.
    numbered = rows.select(["partition", "offset"]).append_column("row", pa.array(range(len(rows)), pa.int64()))
    chosen = numbered.join(place, keys=["partition", "offset"], join_type="inner").column("row")
    members: dict[tuple[int, int], list[MemberRow]] = defaultdict(list)
    for row in read_rows(MemberRow, rows.take(chosen.take(pc.sort_indices(chosen)))):
        members[row.partition, row.offset].append(row)
    return members


def _group(row: _Snapshot, members: list[MemberRow]) -> GroupSnapshot:
    return GroupSnapshot(
        group_id=row.group_id, type="classic", state="Stable" if members else "Empty",
        protocol_type=row.protocol_type or None, assignor=row.protocol, generation=row.generation,
        session_timeout_ms=min((member.session_timeout_ms for member in members), default=None),
        rebalance_timeout_ms=max((member.rebalance_timeout_ms for member in members), default=None),
        topics=tuple(
            TopicSnapshot(name=name, partitions=count)
            for name, count in sorted(partition_counts(_assigned(member) for member in members).items())
        ),
        members=tuple(
            _member(member, number, library)
            for number, (member, library) in enumerate(zip(members, _libraries(row, members), strict=True))
        ),
    )  # fmt: skip


def partition_counts(assignments: Iterable[Mapping[str, list[int]]]) -> dict[str, int]:
    """The lowest number of partitions that each topic must have."""
    counts: dict[str, int] = {}
    for assignment in assignments:
        for topic, numbers in assignment.items():
            counts[topic] = max([counts.get(topic, 0), *(number + 1 for number in numbers)])
    return counts


def _libraries(row: _Snapshot, members: list[MemberRow]) -> Sequence[ClientLibrary | None]:
    if row.protocol_type != PROTOCOL_TYPE:
        return [None] * len(members)
    evidence = [
        MemberEvidence(
            member_id=member.member_id, client_id=member.client_id, session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            partly=partly_known(member.rack_id, member.owned_generation),
            is_static=member.group_instance_id is not None,
        )
        for member in members
    ]  # fmt: skip
    return recognise(row.group_id, row.protocol, evidence).members


def _member(row: MemberRow, number: int, library: ClientLibrary | None) -> MemberSnapshot:
    return MemberSnapshot(
        member_id=row.member_id, group_instance_id=row.group_instance_id, client_id=row.client_id,
        client_host=row.client_host, rack=row.rack_id or None, status="stable",
        topics=None if row.topics is None else tuple(set(row.topics)),
        assignment=_assigned(row), protocol="classic", listed_at=number,
        client_library=library,
    )  # fmt: skip


def _assigned(row: MemberRow) -> dict[str, list[int]]:
    return {each.topic: sorted(each.partitions) for each in row.assigned or ()}
