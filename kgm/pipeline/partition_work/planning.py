"""What a build has to do: which partitions have something new, and the offset from which to build them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.places.parquet import read_table
from kgm.history.places.remote_path import Place
from kgm.history.store.commit_log import Spans, unconfirmed_until
from kgm.history.store.manifest import Manifest, PartitionProgress
from kgm.pipeline.options import BuildReport
from kgm.pipeline.partition_work.derivation import BuiltPartition, Output, PartitionWork


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """works: largest first. rebuilt: partitions that are built again from their beginning. progress: how far each
    partition will be after the build."""

    works: tuple[PartitionWork, ...]
    rebuilt: frozenset[int]
    progress: Mapping[int, PartitionProgress]

    def report(self, done: Collection[BuiltPartition], built: Manifest) -> BuildReport:
        """What a build did. built: the manifest that readers now see."""
        return BuildReport(
            number=built.number, records=sum(each.records for each in done), bad=sum(each.bad for each in done),
            partitions=tuple(sorted(work.partition for work in self.works)), rebuilt=tuple(sorted(self.rebuilt)),
            rows=built.rows,
        )  # fmt: skip


def planned(
    spans: Iterable[tuple[Place, Spans]], before: Manifest | None, output: Callable[[int, bool], Output], *,
    from_scratch: bool, sessions: GivenSessions | None,
) -> BuildPlan:  # fmt: skip
    """spans: of every file of raw records. output: given a partition, and whether it continues from the last build."""
    works, rebuilt, progress = [], set(), {}
    of_file = dict(spans)
    for partition in sorted({number for each in of_file.values() for number in each}):
        mine = {path: each for path, each in of_file.items() if partition in each}
        end = max(each[partition].last + 1 for each in mine.values())
        records = sum(each[partition].records for each in mine.values())
        progress[partition] = PartitionProgress(
            next_offset=end,
            records=records,
            unconfirmed_until=unconfirmed_until(each[partition] for each in mine.values()),
        )
        known = before.partitions.get(partition) if before is not None else None
        if known is not None and (from_scratch or _came_late(mine, partition, known)):
            rebuilt.add(partition)
        if known is not None and partition not in rebuilt and end == known.next_offset:
            continue
        start = known.next_offset if known is not None and partition not in rebuilt else 0
        files = _in_order(mine, partition, start)
        works.append(
            PartitionWork(
                partition=partition,
                start=start,
                files=files,
                output=output(partition, start > 0),
                sessions=sessions,
                bounds=tuple((mine[path][partition].first, mine[path][partition].last) for path in files),
            )
        )
    works.sort(key=lambda work: -sum(of_file[path][work.partition].records for path in work.files))
    return BuildPlan(works=tuple(works), rebuilt=frozenset(rebuilt), progress=progress)


def _in_order(mine: Mapping[Place, Spans], partition: int, start: int) -> tuple[Place, ...]:
    files: Iterable[Place] = (path for path, each in mine.items() if each[partition].last >= start)
    return tuple(sorted(files, key=lambda path: mine[path][partition].first))


def _came_late(mine: Mapping[Place, Spans], partition: int, known: PartitionProgress) -> bool:
    """Whether there are records before the end of the last build that it did not have."""
    below = 0
    for path, spans in mine.items():
        span = spans[partition]
        if span.last < known.next_offset:
            below += span.records
        elif span.first < known.next_offset:
            below += _count_below(path, partition, known.next_offset)
    return below != known.records


def _count_below(path: Place, partition: int, offset: int) -> int:
    """How many records of a partition a file holds before an offset."""
    where = (pc.field("partition") == partition) & (pc.field("offset") < offset)
    return len(read_table(path, columns=["offset"], filters=where))
