"""A broker that has just died: nobody listens at its address, and the cluster's metadata has it until its session ends.
Commands about all groups ask it again until then, as those about one group ask for its coordinator."""

from __future__ import annotations

import json

import pytest

from kgm.client import connect
from kgm.client.failures import ConnectError
from kgm.model.errors import ErrorCode, UnreachableError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.metadata_response import MetadataResponseBroker
from tests.cli.runner import kgm
from tests.client.faults import Edit, Pass

pytestmark = pytest.mark.slow

#: Nobody listens there.
DEAD = "127.0.0.1", 1


def with_a_dead_broker(answer):
    answer.brokers.append(MetadataResponseBroker(node_id=99, host=DEAD[0], port=DEAD[1], rack=None))


@pytest.fixture
def dies(proxy):
    """The metadata has a broker that has died in this many answers."""

    def die(answers):
        proxy.script(ApiKey.METADATA, *[Edit(with_a_dead_broker)] * answers)

    return die


@pytest.mark.parametrize(
    "words",
    ["list", "top --once", "describe --all-groups", "doctor --window 0s --fail-on never"],
    ids=lambda one: one.split()[0],
)
def test_a_command_about_all_groups_waits_until_the_metadata_no_longer_has_it(proxy, dies, group, form, words):
    form("a", "b")
    dies(3)
    run = kgm(*words.split(), "-b", proxy.bootstrap, "--timeout", "60s", "-o", "json")
    assert (run.code, json.loads(run.out)["errors"]) == (0, [])
    assert group in run.out


def test_groups_that_move_to_brokers_which_have_answered_are_listed(proxy, dies, group, form):
    """While its broker is dying, no other broker lists a group."""
    form("a")
    dies(3)

    def without_it(answer):
        answer.groups = [row for row in answer.groups if row.group_id != group]

    proxy.script(ApiKey.LIST_GROUPS, Edit(without_it))
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        listing = cluster.list_groups()
    assert group in [row.group_id for row in listing.groups]
    assert listing.errors == ()
    assert len(proxy.requests(ApiKey.LIST_GROUPS)) == 2


def test_what_the_others_list_is_printed_when_the_time_is_up(proxy, group, form):
    form("a")
    proxy.always(ApiKey.METADATA, Edit(with_a_dead_broker))
    run = kgm("list", "-b", proxy.bootstrap, "--timeout", "3s", "-o", "json")
    assert run.code == 7
    assert group in [row["group_id"] for row in json.loads(run.out)["data"]["groups"]]
    assert f"{DEAD[0]}:{DEAD[1]}" in run.err
    assert len(proxy.requests(ApiKey.METADATA)) > 2  # it was looked for again


def test_it_is_asked_once_in_a_hurry(proxy, group, form):
    """`top` and `export` ask again in their next round."""
    form("a")
    proxy.always(ApiKey.METADATA, Edit(with_a_dead_broker))
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        with cluster.brokers.in_a_hurry():
            listing = cluster.list_groups()
        assert cluster.deadline.remaining() > 30
    assert group in [row.group_id for row in listing.groups]
    (error,) = listing.errors
    assert isinstance(error, ConnectError)


def refused(answer):
    answer.error_code, answer.groups = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []


def test_a_broker_that_loads_its_groups_is_asked_again(proxy, group, form):
    form("a")
    proxy.script(ApiKey.LIST_GROUPS, Edit(refused), Edit(refused), Pass())
    with connect(proxy.bootstrap, timeout_ms=60_000) as cluster:
        listing = cluster.list_groups()
    assert group in [row.group_id for row in listing.groups]
    assert listing.errors == ()


def test_one_that_loads_them_for_longer_than_the_time_allowed_is_out_of_reach(proxy):
    proxy.always(ApiKey.LIST_GROUPS, Edit(refused))
    with connect(proxy.bootstrap, timeout_ms=1_000) as cluster, pytest.raises(UnreachableError) as raised:
        cluster.list_groups()
    assert raised.value.kafka_error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
