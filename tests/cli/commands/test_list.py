"""`kgm list` with lag, by topic and sorted, on groups whose offsets the test commits itself."""

import csv
import io
import json

import pytest
from confluent_kafka import Producer

from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.cli.runner import kgm
from tests.client.faults import Edit, FaultProxy
from tests.client.joiners import form_group
from tests.kafka.records import commit

pytestmark = pytest.mark.slow
#: Records in each of the two partitions of `orders`, and what each group has committed of them.
RECORDS = 10
COMMITTED = {"ahead": {0: 10, 1: 10}, "behind": {0: 1, 1: 2}, "middle": {0: 7}, "past": {0: 99}}
LAG = {"ahead": 0, "behind": 17, "middle": 3, "past": None, "payers": 0}


@pytest.fixture(scope="module")
def server():
    """The groups of COMMITTED without members, `payers` with two members on another topic, which commit nothing
    and whose partitions are empty."""
    with serve_in_thread(topics={"orders": 2, "payments": 2}) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(2 * RECORDS):
            producer.produce("orders", b"x", partition=number % 2)
        assert producer.flush(30) == 0
        for group, offsets in COMMITTED.items():
            commit(running.bootstrap, group, *(("orders", partition, offset) for partition, offset in offsets.items()))
        joiners = form_group(running, "payers", ["a", "b"], "payments")
        yield running
        for joiner in joiners:
            joiner.close()


def listed(server, *words):
    run = kgm("list", *words, "-b", server.bootstrap, "-o", "json")
    assert (run.code, run.err) == (0, "")
    return {group["group_id"]: group for group in json.loads(run.out)["data"]["groups"]}


def test_lag_is_asked_for(server):
    assert {name: group["lag"] for name, group in listed(server, "--lag").items()} == LAG
    assert {group["lag"] for group in listed(server).values()} == {None}
    table = kgm("list", "--lag", "-b", server.bootstrap).out.splitlines()
    assert table[0].split() == ["GROUP", "TYPE", "STATE", "MEMBERS", "LAG"]
    assert next(line.split() for line in table if line.startswith("behind")) == [
        "behind", "classic", "Empty", "0", "17",
    ]  # fmt: skip
    assert "LAG" not in kgm("list", "-b", server.bootstrap).out
    rows = list(csv.DictReader(io.StringIO(kgm("list", "--lag", "-o", "csv", "-b", server.bootstrap).out)))
    assert {row["group_id"]: row["lag"] for row in rows}["past"] == ""


def test_a_list_without_lag_reads_no_offsets(server):
    with FaultProxy((server.host, server.port)) as proxy:
        run = kgm("list", "-b", proxy.bootstrap)
        assert run.code == 0
        asked = {one.api for one in proxy.seen}
        assert ApiKey.LIST_GROUPS in asked
        assert not asked & {ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS}


def test_groups_on_a_topic_have_members_or_offsets_there(server):
    assert set(listed(server, "--topic", "orders")) == set(COMMITTED)
    assert set(listed(server, "--topic", "payments")) == {"payers"}
    assert set(listed(server, "--topic", "payments,orders", "--match", "pa*")) == {"past", "payers"}
    assert listed(server, "--topic", "none") == {}


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ([], ["ahead", "behind", "middle", "past", "payers"]),
        (["--sort", "lag"], ["behind", "middle", "ahead", "payers", "past"]),  # unknown ones last
        (["--sort", "members"], ["payers", "ahead", "behind", "middle", "past"]),
        (["--sort", "STATE"], ["ahead", "behind", "middle", "past", "payers"]),
    ],
)
def test_order(server, words, order):
    assert list(listed(server, *words)) == order
    run = kgm("list", *words, "-b", server.bootstrap, "-o", "name")
    assert run.out.splitlines() == order


def test_groups_that_cannot_be_described_are_named(server):
    """With a topic they are missing from the list, without one their members are unknown."""

    def deny(message):
        for group in message.groups:
            group.error_code, group.members = 30, []

    with FaultProxy((server.host, server.port)) as proxy:
        proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(deny))
        filtered = kgm("list", "--topic", "payments", "--match", "pa*", "-b", proxy.bootstrap)
        listed = kgm("list", "--match", "pa*", "-b", proxy.bootstrap)
    assert (filtered.code, listed.code) == (0, 0)
    why = "warning: group 'past', 'payers' could not be described (GROUP_AUTHORIZATION_FAILED): "
    assert filtered.err.splitlines() == [f"{why}not listed"]
    assert listed.err.splitlines() == [f"{why}members and lag are unknown"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sort", "size"], "error: --sort: 'size' is not one of group, type, state, members, lag"),
        (["--sort", "lags"], "hint: did you mean lag?"),
        (["--topic", " "], "error: --topic: the name of the topic is empty"),
    ],
)
def test_what_is_not_taken(words, message):
    run = kgm("list", *words, "-b", "127.0.0.1:1")
    assert run.code == 2
    assert message in run.err
