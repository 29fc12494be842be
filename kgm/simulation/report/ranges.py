"""What several draws of one plan have in common, and how they differ."""

from collections.abc import Callable, Sequence
from statistics import median_low

from kgm.simulation.play.draw import Draw
from kgm.simulation.report.prediction import Range, Ranges, TimeRange


def typical_of(draws: Sequence[Draw]) -> int:
    """The index of the draw that is nearest to the median in all respects."""
    columns = [
        [draw.rebalances for draw in draws],
        [draw.moved_partitions for draw in draws],
        [draw.stopped_partition_ms for draw in draws],
    ]
    medians = [median_low(column) for column in columns]

    def distance(number: int) -> float:
        return sum(
            abs(column[number] - median) / (median or 1) for column, median in zip(columns, medians, strict=True)
        )

    return min(range(len(draws)), key=distance)


def has_rare_extreme(draws: Sequence[Draw]) -> bool:
    """Whether the minimum or the maximum of something that is counted was drawn only once."""
    columns = zip(
        *((draw.generations, draw.rebalances, draw.moved_partitions, draw.handovers) for draw in draws), strict=True
    )
    return any(column.count(edge) == 1 for column in columns for edge in {min(column), max(column)})


def ranges_of(draws: Sequence[Draw], extremes: Sequence[Draw]) -> Ranges:
    """extremes: draws that widen a range but do not count toward the median."""

    def over(value: Callable[[Draw], int]) -> Range:
        values, wider = [value(draw) for draw in draws], [value(draw) for draw in extremes]
        return Range(min=min(values + wider), median=median_low(values), max=max(values + wider))

    return Ranges(
        generations=over(lambda draw: draw.generations),
        rebalances=over(lambda draw: draw.rebalances),
        moved_partitions=over(lambda draw: draw.moved_partitions),
        handovers=over(lambda draw: draw.handovers),
        stopped_partition_ms=over(lambda draw: draw.stopped_partition_ms),
        draws=len(draws) + len(extremes),
    )


def stopped_range_ms(draws: Sequence[Draw], extremes: Sequence[Draw]) -> TimeRange:
    """The time without a consumer. extremes: as in `ranges_of`."""
    values, wider = ([draw.stopped_partition_ms for draw in each] for each in (draws, extremes))
    return TimeRange(
        min=min(values + wider), median=median_low(values), max=max(values + wider), draws=len(draws) + len(extremes)
    )
