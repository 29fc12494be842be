"""Batches of offset ranges, up to the current end of a source, or for as long as it grows."""

from collections.abc import Callable, Mapping
from threading import Event

from kgm.model.errors import RefusedError
from kgm.pipeline.options import Source
from kgm.pipeline.taking.slices import Ranges


def follow(
    source: Source, *, bounds: Callable[[], Ranges], reached: Callable[[], Mapping[int, int]],
    take: Callable[[Ranges], None], once: bool, every_s: float, most_records: int | None, stop: Event,
) -> None:  # fmt: skip
    """See `kgm.pipeline.capture`. bounds: of the partitions now; reached: how far they were read; take: takes a batch,
    after which `reached` is where its ranges end. Raises RefusedError, and the errors of these."""
    known = end = bounds()
    while True:
        at = reached()
        _refuse_shorter(source, end, at)
        ranges = _limited(
            {number: (at.get(number, first), last) for number, (first, last) in end.items()}, most_records
        )
        if ranges:
            take(ranges)
            if stop.is_set():
                return
            if once or most_records:
                continue
        if once:
            behind = short(known, at)
            assert not behind, behind
            return
        if stop.wait(every_s):
            return
        end = bounds()
        missing = {number: place for number, place in known.items() if number not in end and place[0] < place[1]}
        if missing:
            raise RefusedError(
                f"partitions of {source} have disappeared", facts=facts_of(missing),
                hint="capture it into another store if it is another log",
            )  # fmt: skip


def short(known: Ranges, reached: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """(offset reached, end) of each partition that was not read to its end."""
    return {
        number: (reached.get(number, first), last)
        for number, (first, last) in sorted(known.items())
        if reached.get(number, first) < last
    }


def facts_of(behind: Ranges) -> list[str]:
    """(offset reached, end) of at most 10 partitions, as text for people."""
    return [f"partition {number}: read up to {at}, it ends at {last}" for number, (at, last) in behind.items()][:10]


def _limited(ranges: Ranges, most_records: int | None) -> dict[int, tuple[int, int]]:
    """The non-empty ranges, cut to `most_records` offsets in total, approximately."""
    waiting = {number: each for number, each in ranges.items() if each[0] < each[1]}
    if not most_records:
        return waiting
    share = max(1, most_records // max(1, len(waiting)))
    return {number: (first, min(last, first + share)) for number, (first, last) in waiting.items()}


def _refuse_shorter(source: Source, ends: Ranges, reached: Mapping[int, int]) -> None:
    """Raises RefusedError if partitions end before what was read of them: then it is not the same log."""
    shorter = {
        number: (reached[number], last) for number, (_, last) in sorted(ends.items()) if last < reached.get(number, 0)
    }
    if shorter:
        raise RefusedError(
            f"{source} ends before what was captured of it: the topic was created again, or it is another copy",
            facts=facts_of(shorter), hint="capture it into another store",
        )  # fmt: skip
