"""The two silver tables that are built from decoded columns, without an object for each row: commits that count, and
the members of each GroupMetadata record."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.raw_batch import GroupRecords
from kgm.history.decode.record_tables import Decoded, group_record_batch
from kgm.history.decode.subscriptions import assignments, subscriptions
from kgm.history.decode.transactions import OUTCOME_NAMES, TransactionOutcome, TransactionOutcomes
from kgm.history.schema import POSITION, SILVER_COMMIT, SILVER_MEMBER
from kgm.protocol.subscription import PROTOCOL_TYPE
from kgm.records.record_types import RecordType

_ABSENT_IN_LEGACY = ("leader_epoch", "expire_timestamp", "topic_id")
_SUBSCRIPTION_FAILED, _ASSIGNMENT_FAILED = 1, 2


def commit_table(decoded: Decoded, raw: pa.Table, outcomes: TransactionOutcomes) -> pa.Table:
    """`schema.SILVER_COMMIT` for records that were decoded from `raw`, without those of aborted transactions."""
    tables = [
        _commits(decoded.records[kind], raw, outcomes)
        for kind in (RecordType.LEGACY_OFFSET_COMMIT, RecordType.OFFSET_COMMIT)
        if kind in decoded.records
    ]
    return pa.concat_tables(tables) if tables else SILVER_COMMIT.empty_table()


def _commits(records: pa.Table, raw: pa.Table, outcomes: TransactionOutcomes) -> pa.Table:
    outcome, marker = _of_records(records, raw, outcomes)
    counts = outcome != TransactionOutcome.ABORTED
    if not counts.all():
        records = records.filter(pa.array(counts))
        outcome, marker = outcome[counts], marker[counts]
    key, value = _flat(records, "key"), _flat(records, "value")
    # Records of type 0 do not have these; Arrow fills them with null.
    missing = pa.nulls(len(records))
    for name in _ABSENT_IN_LEGACY:
        value.setdefault(name, missing)
    offset = records.column("offset").combine_chunks().to_numpy()
    plain = outcome == TransactionOutcome.NONE
    visible = np.where(plain, offset, marker)
    columns = [
        *(records.column(field.name) for field in POSITION),
        key["group"], key["topic"], key["partition"],
        pc.is_null(records.column("version")),
        value["offset"], value["leader_epoch"], value["metadata"], value["commit_timestamp"],
        value["expire_timestamp"], value["topic_id"],
        _outcome_names(outcome),
        pa.array(visible, mask=~plain & (outcome != TransactionOutcome.COMMITTED)),
    ]  # fmt: skip
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, SILVER_COMMIT, strict=True)], schema=SILVER_COMMIT
    )


def _of_records(
    records: pa.Table, raw: pa.Table, outcomes: TransactionOutcomes
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """(outcome, marker offset) of each decoded record; there is no lookup if no record was transactional."""
    outcome = np.zeros(len(records), dtype=np.int8)
    marker = np.full(len(records), -1, dtype=np.int64)
    theirs = pc.fill_null(records.column("transactional"), False).to_numpy()  # noqa: FBT003
    rows = np.nonzero(theirs)[0]
    if len(rows):
        known = np.nonzero(outcomes.outcome != TransactionOutcome.NONE)[0]
        row_of = dict(zip(_places(raw, known), known.tolist(), strict=True))
        chosen = [row_of[place] for place in _places(records, rows)]
        outcome[rows], marker[rows] = outcomes.outcome[chosen], outcomes.marker_offset[chosen]
    return outcome, marker


def _places(table: pa.Table, rows: npt.NDArray[np.int64]) -> Sequence[tuple[int, int]]:
    chosen = table.select(["partition", "offset"]).take(pa.array(rows))
    return list(zip(chosen.column(0).to_pylist(), chosen.column(1).to_pylist(), strict=True))


def _outcome_names(outcome: npt.NDArray[np.int8]) -> pa.Array:
    if not outcome.any():
        return pa.nulls(len(outcome), pa.string())
    return pa.array(OUTCOME_NAMES, type=pa.string()).take(pa.array(outcome))


def _flat(records: pa.Table, name: str) -> dict[str, pa.Array]:
    """The fields of a struct column, null where the struct is null."""
    column = records.column(name).combine_chunks()
    return dict(zip([field.name for field in column.type], column.flatten(), strict=True))


def member_table(decoded: Decoded) -> pa.Table:
    """`schema.SILVER_MEMBER`: a row for each member in each GroupMetadata record, in order."""
    return pa.concat_tables([SILVER_MEMBER.empty_table(), *(_members(each) for each in decoded.groups)])


def _members(groups: GroupRecords) -> pa.Table:
    """The rows for `member_table`: each distinct member is decoded once, and its columns are repeated as needed."""
    if len(groups.values) != 1:
        return _one_by_one(group_record_batch(groups))
    part, own = groups.values[0], groups.own[0]
    columns, elements = part.columns, part.elements
    if not pc.all(pc.equal(columns["protocol_type"].slice(0, own), PROTOCOL_TYPE)).as_py():
        return _one_by_one(group_record_batch(groups))
    count = np.diff(elements.offsets[: own + 1])
    value = np.repeat(np.arange(len(count)), count)
    record = pa.array(np.nonzero(groups.value_of >= 0)[0][value])
    one = dict(zip([field.name for field in elements.different.type], elements.different.flatten(), strict=True))
    decoded = _of_members(one, one["subscription"], one["assignment"])
    number = None if elements.number is None else pa.array(elements.number[: len(value)])
    decoded = [column.slice(0, len(value)) if number is None else column.take(number) for column in decoded]
    names = [field.name for field in POSITION]
    columns_of = [
        *(column.take(record) for column in groups.plain[: len(names)]),
        groups.keys.field("group").take(pa.array(groups.key_of).take(record)),
        columns["generation"].take(pa.array(value)),
        *decoded,
    ]  # fmt: skip
    return pa.Table.from_arrays(columns_of, schema=SILVER_MEMBER)


def _of_members(member: dict[str, pa.Array], subscription: pa.Array, assignment: pa.Array) -> list[pa.Array]:
    """The columns of SILVER_MEMBER after generation."""
    subscribed, given = subscriptions(subscription), assignments(assignment)
    failed = subscribed.failed * _SUBSCRIPTION_FAILED + given.failed * _ASSIGNMENT_FAILED
    topics, _, owned, owned_generation, rack = subscribed.messages.flatten()
    return [
        *(member[name] for name in ("member_id", "group_instance_id", "client_id", "client_host")),
        member["rebalance_timeout"], member["session_timeout"],
        topics, owned, owned_generation, rack,
        pc.struct_field(given.messages, "assigned_partitions"),
        pa.array(failed, type=pa.int8()),
    ]  # fmt: skip


def _one_by_one(records: pa.RecordBatch) -> pa.Table:
    """The same, for groups of different protocol types, or records of several versions, in one batch."""
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
