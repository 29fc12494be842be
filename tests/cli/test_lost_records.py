"""A committed offset that retention has overtaken: the lag is what can still be read, and what was lost is said."""

import json

import pytest
from confluent_kafka import TopicPartition

from tests.cli.runner import kgm, kgm_in_time
from tests.kafka.records import commit

pytestmark = pytest.mark.kafka
WHY = "497 records were lost to retention before they were read: "


@pytest.fixture(scope="module")
def overtaken(kafka):
    """A group that has read 3 of 500 records in one partition, and 1 of 2 in the other; the first 500 are deleted."""
    topic = group = "lost-to-retention"
    kafka.create_topics({topic: 2})
    kafka.produce(topic, [b"x"] * 500, partition=0)
    kafka.produce(topic, [b"x"] * 2, partition=1)
    commit(kafka.bootstrap, group, (topic, 0, 3), (topic, 1, 1))
    admin = kafka.admin()  # a client that is dropped before its future resolves never answers
    for future in admin.delete_records([TopicPartition(topic, 0, 500)]).values():
        future.result(30)
    return topic, ("-b", kafka.bootstrap)


def test_the_lag_is_what_can_still_be_read(overtaken):
    topic, where = overtaken
    (group,) = json.loads(kgm("describe", topic, *where, "-o", "json").out)["data"]["groups"]
    rows = {row["partition"]: (row["committed"], row["end"], row["lag"], row["lost"]) for row in group["offsets"]}
    assert rows == {0: (3, 500, 0, 497), 1: (1, 2, 1, 0)}
    for view in ("--members", "--offsets", "--state"):
        assert f"{WHY}{topic}[0]" in kgm("describe", topic, *where, view).out
    listed = json.loads(kgm("list", "--match", topic, "--lag", *where, "-o", "json").out)
    assert [row["lag"] for row in listed["data"]["groups"]] == [1]


def test_wait_ends_when_all_is_read_that_there_is(overtaken):
    topic, where = overtaken
    assert kgm("wait", topic, *where, "--for", "lag<=1").code == 0
    late = kgm_in_time(
        lambda run: "lag<=0: lag 1" in run.err, "wait", topic, *where, "--for", "lag<=0", "--interval", "200ms"
    )
    assert late.code == 8
    assert "lag<=0: lag 1" in late.err


def test_doctor_watch_and_metrics_tell_the_loss(overtaken):
    topic, where = overtaken
    findings = json.loads(kgm("doctor", topic, *where, "-o", "json").out)["data"]["findings"]
    (finding,) = [one for one in findings if one["check"] == "records-lost"]
    assert (finding["severity"], finding["message"]) == ("error", f"{WHY}{topic}[0]")
    watched = json.loads(kgm("watch", topic, *where, "--count", "1", "-o", "json").out)["data"]
    assert f"{WHY}{topic}[0]" in [event["text"] for event in watched["events"]]
    metrics = kgm("export", "--match", topic, *where).out
    assert f'kgm_group_lost_records{{group="{topic}",topic="{topic}"}} 497.0' in metrics
    assert f'kgm_group_lag{{group="{topic}"}} 1.0' in metrics
