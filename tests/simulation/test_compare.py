from kgm.model.errors import RefusedError
from kgm.simulation.compare import compare
from kgm.simulation.plan.bounce_plan import Plan, Rolling
from tests.simulation.groups import ids, made_up
from tests.simulation.streams.applications import THREADS, streams_group


def test_scenarios_side_by_side():
    group = made_up(3, 12)
    comparison = compare(group, Plan(bounce=ids(group), rolling=Rolling()), draws=4)
    by_name = {scenario.name: scenario for scenario in comparison.predictions}
    assert list(by_name) == ["as-is", "static", "dynamic", "cooperative", "consumer"]
    assert by_name["as-is"].typical.rebalances == by_name["static"].typical.rebalances == 0
    assert by_name["dynamic"].typical.rebalances == 6
    assert by_name["cooperative"].assignor == "cooperative-sticky"
    assert by_name["cooperative"].exact
    consumer = by_name["consumer"]
    assert (consumer.protocol, consumer.assignor, consumer.typical.rebalances) == ("consumer", "uniform", 0)
    assert consumer.exact
    assert not comparison.errors


def test_an_error_in_one_scenario_is_data():
    """As it is the assignor need not run; to make the members dynamic it would have to."""
    group = made_up(2, 4)
    streams = type(group)(
        **{name: getattr(group, name) for name in group.__dataclass_fields__} | {"assignor": "stream"}
    )
    comparison = compare(streams, Plan(bounce=ids(group, 0)), draws=2)
    assert [scenario.name for scenario in comparison.predictions] == ["as-is"]
    assert sum("'stream'" in error.message for error in comparison.errors) == 4


def test_a_streams_group_has_no_other_scenario():
    comparison = compare(streams_group(), Plan(bounce=THREADS[4:]), draws=2)
    assert [scenario.name for scenario in comparison.predictions] == ["as-is"]
    assert len(comparison.errors) == 4
    for error in comparison.errors:
        assert isinstance(error, RefusedError)
        assert "is a streams group (KIP-1071)" in error.message
