"""Decoded records into the silver tables of `schema`: commits that count, and members taken apart."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.record_tables import Decoded, GroupRecords
from kgm.history.decode.subscriptions import assignments, subscriptions
from kgm.history.decode.transactions import ABORTED, COMMITTED, NAMES, NONE, Fates
from kgm.history.schema import POSITION, SILVER_COMMIT, SILVER_MEMBER
from kgm.protocol.subscription import PROTOCOL_TYPE

OFFSET_COMMIT = 1
_LEGACY_OFFSET_COMMIT = 0
_ABSENT_IN_LEGACY = ("leader_epoch", "expire_timestamp", "topic_id")
_SUBSCRIPTION_FAILED, _ASSIGNMENT_FAILED = 1, 2


def commits(decoded: Decoded, raw: pa.Table, fates: Fates) -> pa.Table:
    """`schema.SILVER_COMMIT` of records that were decoded from `raw`, whose transactions ended as `fates` says."""
    tables = [
        _commits(decoded.records[kind], raw, fates)
        for kind in (_LEGACY_OFFSET_COMMIT, OFFSET_COMMIT)
        if kind in decoded.records
    ]
    return pa.concat_tables(tables) if tables else SILVER_COMMIT.empty_table()


def _commits(records: pa.Table, raw: pa.Table, fates: Fates) -> pa.Table:
    fate, marker = _of_records(records, raw, fates)
    count = fate != ABORTED
    if not count.all():
        records = records.filter(pa.array(count))
        fate, marker = fate[count], marker[count]
    key, value = _flat(records, "key"), _flat(records, "value")
    # A record of type 0 has no more than these; Arrow fills the rest with null.
    missing = pa.nulls(len(records))
    for name in _ABSENT_IN_LEGACY:
        value.setdefault(name, missing)
    offset = records.column("offset").combine_chunks().to_numpy()
    visible = np.where(fate == NONE, offset, marker)
    columns = [
        *(records.column(field.name) for field in POSITION),
        key["group"], key["topic"], key["partition"],
        pc.is_null(records.column("version")),
        value["offset"], value["leader_epoch"], value["metadata"], value["commit_timestamp"],
        value["expire_timestamp"], value["topic_id"],
        _names(fate),
        pa.array(visible, mask=(fate != NONE) & (fate != COMMITTED)),
    ]  # fmt: skip
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, SILVER_COMMIT, strict=True)], schema=SILVER_COMMIT
    )


def _of_records(records: pa.Table, raw: pa.Table, fates: Fates) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """(fate, marker) of each decoded record; no look-up where nothing was transactional."""
    fate = np.zeros(len(records), dtype=np.int8)
    marker = np.full(len(records), -1, dtype=np.int64)
    theirs = pc.fill_null(records.column("transactional"), False).to_numpy()  # noqa: FBT003
    rows = np.nonzero(theirs)[0]
    if len(rows):
        known = np.nonzero(fates.fate != NONE)[0]
        at = _places(raw, known)
        wanted = _places(records, rows)
        found = {place: row for row, place in zip(known.tolist(), at, strict=True)}
        chosen = [found[place] for place in wanted]
        fate[rows], marker[rows] = fates.fate[chosen], fates.marker_offset[chosen]
    return fate, marker


def _places(table: pa.Table, rows: npt.NDArray[np.int64]) -> Sequence[tuple[int, int]]:
    chosen = table.select(["partition", "offset"]).take(pa.array(rows))
    return list(zip(chosen.column(0).to_pylist(), chosen.column(1).to_pylist(), strict=True))


def _names(fate: npt.NDArray[np.int8]) -> pa.Array:
    if not fate.any():
        return pa.nulls(len(fate), pa.string())
    return pa.array(NAMES, type=pa.string()).take(pa.array(fate))


def _flat(records: pa.Table, name: str) -> dict[str, pa.Array]:
    """The fields of a struct column, null where the struct is."""
    column = records.column(name).combine_chunks()
    return dict(zip([field.name for field in column.type], column.flatten(), strict=True))


def members(decoded: Decoded) -> pa.Table:
    """`schema.SILVER_MEMBER`: a row for each member in each GroupMetadata record, in order."""
    return pa.concat_tables([SILVER_MEMBER.empty_table(), *(_members(each) for each in decoded.groups)])


def _members(groups: GroupRecords) -> pa.Table:
    """As many times as a member occurs, what was found of it once."""
    if len(groups.values) != 1:
        return _one_by_one(groups.batch())
    columns, elements = groups.values[0]
    if not pc.all(pc.equal(columns["protocol_type"], PROTOCOL_TYPE)).as_py():
        return _one_by_one(groups.batch())
    count = np.diff(elements.offsets)
    value = np.repeat(np.arange(len(count)), count)
    record = pa.array(np.nonzero(groups.value_of >= 0)[0][value])
    one = dict(zip([field.name for field in elements.different.type], elements.different.flatten(), strict=True))
    found = _of_members(one, one["subscription"], one["assignment"])
    if elements.number is not None:
        number = pa.array(elements.number)
        found = [column.take(number) for column in found]
    names = [field.name for field in POSITION]
    columns_of = [
        *(column.take(record) for column in groups.plain[: len(names)]),
        groups.keys.field("group").take(pa.array(groups.key_of).take(record)),
        columns["generation"].take(pa.array(value)),
        *found,
    ]  # fmt: skip
    return pa.Table.from_arrays(columns_of, schema=SILVER_MEMBER)


def _of_members(member: dict[str, pa.Array], subscription: pa.Array, assignment: pa.Array) -> list[pa.Array]:
    """The columns of SILVER_MEMBER behind generation."""
    said, given = subscriptions(subscription), assignments(assignment)
    failed = said.failed * _SUBSCRIPTION_FAILED + given.failed * _ASSIGNMENT_FAILED
    topics, _, owned, owned_generation, rack = said.messages.flatten()
    return [
        *(member[name] for name in ("member_id", "group_instance_id", "client_id", "client_host")),
        member["rebalance_timeout"], member["session_timeout"],
        topics, owned, owned_generation, rack,
        pc.struct_field(given.messages, "assigned_partitions"),
        pa.array(failed, type=pa.int8()),
    ]  # fmt: skip


def _one_by_one(records: pa.RecordBatch) -> pa.Table:
    """Of groups of different kinds, or records of several versions."""
    value = records.column("value")
    protocol_type = pc.struct_field(value, "protocol_type")
    lists = pc.struct_field(value, "members")
    parent = pc.list_parent_indices(lists)
    inner = lists.flatten()
    member = dict(zip([field.name for field in inner.type], inner.flatten(), strict=True))
    consumer = pc.equal(protocol_type, PROTOCOL_TYPE).take(parent)
    null = pa.scalar(None, type=pa.binary())
    blobs = [pc.if_else(consumer, member[name], null) for name in ("subscription", "assignment")]
    columns = [
        *(records.column(field.name).take(parent) for field in POSITION),
        pc.struct_field(records.column("key"), "group").take(parent),
        pc.struct_field(value, "generation").take(parent),
        *_of_members(member, *blobs),
    ]
    return pa.Table.from_arrays(columns, schema=SILVER_MEMBER)
