"""What is told by the order in which a broker lists the members of a consumer group."""

from hypothesis import given
from hypothesis import strategies as st

from kgm.java.timeline_hash_map import TimelineOrder, timeline_capacity


@given(st.lists(st.text("abcdefgh-_", min_size=8, max_size=8), min_size=1, max_size=40, unique=True), st.data())
def test_the_size_of_a_timeline_hash_map_is_told_by_its_order(keys, data):
    """Of a table that was larger once: any that lists what is left in the same order will go on doing so."""
    table = TimelineOrder()
    for size in range(len(keys)):
        table.put(size)
    left = data.draw(
        st.lists(st.sampled_from(keys), min_size=1, unique=True).map(lambda some: [k for k in keys if k in some])
    )
    listed = table.sorted(left)
    capacity = timeline_capacity(listed)
    assert capacity is not None
    assert capacity <= table.capacity
    assert TimelineOrder(capacity).sorted(reversed(listed)) == listed
    for going in left:
        staying = [key for key in left if key != going]
        assert TimelineOrder(capacity).sorted([k for k in reversed(listed) if k != going]) == table.sorted(staying)


def test_another_order_tells_nothing():
    keys = [f"member-{number}" for number in range(12)]
    listed = TimelineOrder(16).sorted(keys)
    assert timeline_capacity(listed[::-1]) is None
    assert timeline_capacity([]) is not None
