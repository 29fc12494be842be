from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kgm.simulation.play.ownership_ledger import OwnershipLedger

CONSUMERS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.booleans(), CONSUMERS, st.lists(st.integers(0, 2), unique=True)), max_size=25)


def ledger():
    return OwnershipLedger({"t": 3}, {"a": {"t": (0, 1)}}, 1000.0)


def test_time_without_a_consumer_adds_up_over_partitions():
    book = ledger()
    book.drop("a", {"t": (0, 1)}, 1100.0)
    book.take("b", {"t": (0,)}, 1150.0)
    assert book.stopped_ms(1300.0) == 50 + 200
    book.take("b", {"t": (1,)}, 1300.0)
    assert book.stopped_ms(9000.0) == 250


def test_a_partition_that_never_was_consumed_is_not_stopped():
    book = ledger()
    assert book.stopped_ms(5000.0) == 0
    book.take("a", {"t": (2,)}, 5000.0)
    assert (book.stopped_ms(6000.0), book.handovers) == (0, 0)


def test_a_partition_with_two_consumers_is_stopped_when_both_are_gone():
    book = ledger()
    book.take("b", {"t": (0,)}, 1100.0)
    book.drop("a", {"t": (0,)}, 1200.0)
    assert book.stopped_ms(1300.0) == 0
    book.drop("b", {"t": (0,)}, 1300.0)
    assert book.stopped_ms(1400.0) == 100


def test_moves_compare_before_with_after_and_know_when():
    book = ledger()
    book.drop("a", {"t": (0, 1)}, 1100.0)
    book.take("b", {"t": (0, 1)}, 1200.0)
    book.drop("b", {"t": (0, 1)}, 1300.0)
    book.take("a", {"t": (1,)}, 1400.0)
    found = [
        (move.partition, move.owner_before, move.owner_after, move.at_ms) for move in book.moves({"a": {"t": (1,)}})
    ]
    assert found == [(0, "a", None, 300)]
    assert book.handovers == 3


def test_a_partition_beyond_the_topic_is_left_out():
    book = OwnershipLedger({"t": 1}, {"a": {"t": (0, 7)}}, 0.0)
    book.take("b", {"t": (7,)}, 10.0)
    assert book.handovers == 0
    assert [(move.partition, move.at_ms) for move in book.moves({"a": {"t": (0,)}})] == [(7, 0)]


def test_a_partition_that_comes_back_to_the_consumer_that_had_it_is_not_handed_over():
    book = ledger()
    book.drop("a", {"t": (0, 1)}, 1100.0)
    book.take("a", {"t": (0,)}, 1200.0)
    book.take("b", {"t": (1,)}, 1200.0)
    assert book.handovers == 1


@given(STEPS)
def test_handovers_are_the_changes_in_the_list_of_those_who_took_a_partition(steps):
    """And there are at least as many as moves from one consumer to another, whatever happens on the way."""
    book = ledger()
    taken_by = {0: ["a"], 1: ["a"], 2: []}
    for number, (takes, identity, partitions) in enumerate(steps):
        (book.take if takes else book.drop)(identity, {"t": tuple(partitions)}, 1000.0 + number)
        for partition in partitions if takes else ():
            taken_by[partition].append(identity)
    changes = [(one, then) for names in taken_by.values() for one, then in pairwise(names)]
    assert book.handovers == sum(one != then for one, then in changes)
    final: dict[str, dict[str, tuple[int, ...]]] = {}
    for partition, names in taken_by.items():
        if names:
            final.setdefault(names[-1], {"t": ()})["t"] += (partition,)
    between_consumers = [move for move in book.moves(final) if move.owner_before is not None]
    assert book.handovers >= len(between_consumers)


def test_how_few_partitions_had_a_consumer_at_the_same_time():
    book = OwnershipLedger({"t": 4}, {"a": {"t": (0, 1)}, "b": {"t": (2,)}}, 0)
    assert book.fewest_consumed == 3  # one never had any
    book.take("b", {"t": (0,)}, 5)  # which a fenced one has not noticed yet
    book.drop("a", {"t": (0, 1)}, 10)
    assert book.fewest_consumed == 2
    book.take("b", {"t": (1, 3)}, 20)
    assert (book.consumed, book.fewest_consumed) == (4, 2)
    book.drop("b", {"t": (0, 1, 2, 3)}, 30)
    assert book.fewest_consumed == 0
