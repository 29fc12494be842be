"""`explain` from Python: a source in, typed values out; what the command line prints of them is tested there."""

import pytest

from kgm.history.rows import RebalanceRow
from kgm.model.errors import MissingFileError, NotFoundError, RefusedError, UsageError
from kgm.operations.history import HistorySource, explain, explain_group, open_history
from kgm.operations.history.churn import rank_churn
from kgm.operations.history.group_rows import alarms, count_moves, owners, tenures_and_events
from kgm.operations.history.source import extra_needed
from kgm.pipeline.options import SourceKind
from tests.cli.commands.history import oracle
from tests.history.store.stores import write_store
from tests.records.real_logs import DATA

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def segments(tmp_path_factory):
    """The partition of a real log in which the group billing is."""
    folder = tmp_path_factory.mktemp("of-billing")
    (folder / "__consumer_offsets-1").symlink_to(DATA / "plain" / "__consumer_offsets-1")
    return f"segments:{folder}"


@pytest.fixture(scope="module")
def history(segments):
    return open_history(segments)


def test_a_group_is_explained_from_segments(segments):
    explained = explain("billing", segments, generation=4)
    one = explained.rebalance
    assert isinstance(one, RebalanceRow)
    assert (one.from_generation, one.to_generation, one.cause, one.confidence) == (3, 4, "session-expiry", "possible")
    assert [(each.seat, each.what) for each in one.who] == [("billing-0", "session-expiry")]
    assert (explained.causes[0].cause, explained.causes[0].count) == ("join", 3)
    assert (explained.group_type, explained.complete, len(explained.rebalances)) == ("classic", True, 6)
    assert [change.kind for change in explained.changes] == ["left"]
    before, after = next(step[4:] for step in oracle.transitions() if step[:3] == ("billing", 3, 4))
    assert {(move.topic, move.partition): (move.owner_before, move.owner_after) for move in explained.moves} == {
        place: (before.get(place), after.get(place))
        for place in before.keys() | after.keys()
        if before.get(place) != after.get(place)
    }
    assert f"kgm history timeline billing --source {segments}" in [step.command for step in explained.next_steps]


@pytest.mark.long
def test_a_built_store_gives_the_same_answer(tmp_path):
    history = open_history(f"segments:{DATA / 'plain'}")
    store = write_store(tmp_path / "store", history.tables.tables, partitions=range(4))
    built, derived = explain("cha-k8", store), explain_group(history, "cha-k8")
    assert built.rebalances == derived.rebalances
    assert (built.moves, built.changes, built.alarms) == (derived.moves, derived.changes, derived.alarms)
    assert {step.why for step in built.next_steps} == {step.why for step in derived.next_steps}
    assert open_history(str(store)).tables.origin.cluster == "test-cluster"


def test_what_is_not_there(history, segments, tmp_path):
    with pytest.raises(NotFoundError, match="group nobody is not in the history"):
        explain_group(history, "nobody")
    with pytest.raises(NotFoundError) as failed:
        explain_group(history, "billing", 99)
    assert failed.value.facts == ("generations in the history: 1, 2, 3, 4, 5, 6",)
    for source in (tmp_path, f"segments:{tmp_path / 'gone'}"):
        with pytest.raises(MissingFileError):
            open_history(source)
    with pytest.raises(UsageError):
        open_history(f"segments:{tmp_path}")
    with pytest.raises(RefusedError):
        open_history(segments, most_bytes=1000)


@pytest.mark.long
def test_only_what_was_in_the_time(history, segments):
    second = history.rebalances("billing")[1].timestamp
    part = explain("billing", segments, since_ms=second, until_ms=second + 1)
    assert [row.timestamp for row in part.rebalances] == [second]
    assert part.rebalance == part.rebalances[0]


@pytest.mark.long
def test_a_brokers_log_replaces_what_was_inferred(segments, tmp_path):
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-21 04:04:03,728] INFO Preparing to rebalance group billing in state PREPARING_REBALANCE with old "
        "generation 3 (reason: removing member billing-0-c3574b5c-38a1-4c1f-948f-c845330d7317 on heartbeat "
        "expiration). (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
    )
    one = explain("billing", segments, generation=4, broker_logs=[log]).rebalance
    assert (one.cause, one.confidence, one.source) == ("session-expiry", "certain", "broker log")
    assert (one.inferred_cause, one.inferred_confidence) == ("session-expiry", "possible")


def test_other_questions(history):
    churn = rank_churn(history, match="billing")
    assert [(each.group_id, each.rebalances, each.absorbed) for each in churn.groups] == [("billing", 6, 8)]
    assert churn.culprits[0].rebalances >= churn.culprits[-1].rebalances
    # Some of its partitions were never committed: nothing bounds for how long they had no consumer.
    (billing,) = churn.groups
    assert (billing.stopped_partition_ms_min or 0) > 0
    assert billing.stopped_partition_ms_max is None
    found = tenures_and_events(history, "billing")
    assert {row.seat for row in found.tenures} >= {"billing-0", "billing-1"}
    assert sum(row.event == "absorbed-bounce" for row in found.events) == 8
    rows = owners(history, "billing")
    partition = [row for row in rows if (row.topic, row.topic_partition) == ("orders", 0)]
    assert [(row.seat, row.from_generation) for row in partition] == [
        ("billing-0", 1),
        ("billing-1", 4),
        ("billing-0", 5),
    ]
    assert count_moves(partition) == 2
    # Its members restarted one after another, each up to three times within seconds: no two with one id at a time.
    assert "duplicate-instance-id" not in {row.alarm for row in alarms(history, "billing", None)}


@pytest.mark.parametrize(
    ("text", "kind", "option"),
    [
        ("segments:/a b", SourceKind.SEGMENTS, "--source 'segments:/a b'"),
        ("parquet:/a", SourceKind.PARQUET, "--source parquet:/a"),
        ("/data/history", None, "--store /data/history"),
    ],
)
def test_sources_are_named_as_options_name_them(text, kind, option):
    source = HistorySource.parse(text)
    assert (source.kind, source.option) == (kind, option)


def test_a_missing_extra_is_named():
    with pytest.raises(UsageError) as failed, extra_needed():
        raise ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")
    assert failed.value.hint == "pip install 'kafka-kgm[spark]'"
    with pytest.raises(ModuleNotFoundError), extra_needed():
        raise ModuleNotFoundError("No module named 'other'", name="other")
