"""Replays whole logs, in any number of parts, and gives what they show of every classic group."""

from collections.abc import Iterator

import pyarrow as pa

from kgm.history.decode.raw_batch import RawBatch
from kgm.history.decode.record_order import in_order, partitions_of, pieces
from kgm.history.reconstruct.partition_replay import PartitionReplay, Timeline
from kgm.history.reconstruct.replay_state import replay_table, replays_of
from kgm.history.reconstruct.timelines import joined
from kgm.history.schema import RAW


def timelines(raw: pa.Table) -> Iterator[Timeline]:
    """Every group with a GroupMetadata record, by partition and group id. The table holds all that is known about its
    partitions: offsets missing in between count as removed by compaction."""
    yield from joined(LogReplay().feed(raw))


class LogReplay:
    """Replays all partitions of a log, in any number of parts.

    No matter how a log is cut, the concatenated snapshots and changes of the parts equal those of the whole, and so do
    the rebalances if later ones replace those with the same offset: a group's last rebalance is reported again when
    commits after the cut narrow it down. Records that have been fed before change nothing."""

    def __init__(self, state: pa.Table | None = None) -> None:
        """state: of an earlier replay, to continue from."""
        self._replays = {} if state is None else replays_of(state)

    def feed(self, raw: pa.Table) -> Iterator[Timeline]:
        """What the next records add. A group can occur several times."""
        raw = raw.select(RAW.names)
        for number in partitions_of(raw):
            replay = self._replays.setdefault(number, PartitionReplay(number))
            for piece in pieces(in_order(number, raw, replay.next_offset)):
                timelines_of_piece, _ = replay.feed(RawBatch(piece))
                yield from timelines_of_piece

    def state(self) -> pa.Table:
        """The state needed to continue."""
        return replay_table(self._replays.values())
