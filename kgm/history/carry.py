"""What `derive` keeps so that it can continue after the records it has seen: converts partitions to a table by
`schema.CARRY`, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from kgm.history.partitions import Partition
from kgm.history.reconstruct.partition_replay import PartitionReplay
from kgm.history.reconstruct.replay_state import replay_table, replays_of
from kgm.history.row_tables import read_rows, row_table
from kgm.history.rows import CarryRow
from kgm.history.state_json import dump_state, json_name, load_state

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Carry:
    """Everything known so far, as a small table by `schema.CARRY`."""

    table: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionState:
    """topics: (topic id in hex, offset, name). replay: a table of `replay_state`, as an Arrow IPC stream. every_type:
    whether streams and share groups were read, too; older versions of kgm did not read them."""

    gaps: int
    topics: list[tuple[str, int, str]]
    replay: bytes = field(metadata=json_name("timelines"))
    every_type: bool = False


def load_carry(carry: Carry | None) -> dict[int, Partition]:
    """The partitions by number."""
    partitions: dict[int, Partition] = {}
    for row in [] if carry is None else read_rows(CarryRow, carry.table):
        partition = partitions.setdefault(row.partition, new_partition(row.partition))
        if row.group_id is not None:
            partition.groups[row.group_id] = row.state
            continue
        state = load_state(_PartitionState, row.state)
        partition.topics = {topic: (offset, name) for topic, offset, name in state.topics}
        with pa.ipc.open_stream(state.replay) as stream:
            replay = replays_of(stream.read_all()).get(row.partition, partition.replay)
        replay.next_offset, replay.gaps = row.offset, state.gaps
        partition.replay, partition.every_type = replay, state.every_type
    return partitions


def new_partition(number: int) -> Partition:
    """A partition about which nothing is known yet."""
    return Partition(number, PartitionReplay(number))


def dump_carry(partitions: Mapping[int, Partition]) -> Carry:
    """The inverse of `load_carry`."""
    rows = []
    for number, partition in partitions.items():
        replay = partition.replay
        topics = [(topic, *known) for topic, known in partition.topics.items()]
        state = _PartitionState(
            gaps=replay.gaps, topics=topics, replay=_stream(replay_table([replay])), every_type=partition.every_type
        )
        states = [(None, dump_state(state)), *partition.groups.items()]
        rows += [
            CarryRow(partition=number, group_id=group, offset=replay.next_offset, version=_VERSION, state=content)
            for group, content in states
        ]
    return Carry(row_table(CarryRow, rows))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content
