"""Which members a drain takes away."""

from __future__ import annotations

import pytest

from kgm.client.transport.bootstrap import Address
from kgm.client.transport.brokers import BrokerNode
from kgm.model.errors import NotFoundError, UsageError
from kgm.model.snapshot import MemberSnapshot
from kgm.operations.drain.target import DrainTarget, with_addresses


def member(**fields):
    return MemberSnapshot(member_id="orders-2-uuid", group_instance_id="orders-2", client_id="orders", **fields)


@pytest.mark.parametrize(
    ("host", "client_host", "takes"),
    [
        ("10.0.3.17", "10.0.3.17", True),
        ("10.0.3.17", "/10.0.3.17", True),  # as a broker writes it
        ("10.0.3.1", "10.0.3.17", False),
        ("10.0.3.*", "10.0.3.17", True),
        ("10.0.3.0/24", "10.0.3.17", True),
        ("10.0.3.0/28", "10.0.3.17", False),
        ("::1", "/0:0:0:0:0:0:0:1", True),  # Java does not shorten
        ("node-17", "node-17/10.0.3.17", True),
        ("10.0.3.17", "", False),
    ],
)
def test_hosts_are_addresses_networks_and_globs(host, client_host, takes):
    assert DrainTarget(hosts=(host,)).takes(member(client_host=client_host)) is takes


@pytest.mark.parametrize(
    ("target", "takes"),
    [
        ({"client_ids": ("ord*",)}, True),
        ({"client_ids": ("payments",)}, False),
        ({"racks": ("a", "b")}, True),
        ({"racks": ("a*",)}, False),
        ({"identities": ("*-2",)}, True),
        ({"identities": ("orders-2-uuid",)}, False),  # the identity of a static member is its instance id
    ],
)
def test_members_are_known_by_client_id_rack_and_identity(target, takes):
    assert DrainTarget(**target).takes(member(rack="a")) is takes


@pytest.mark.parametrize(
    ("target", "takes"),
    [
        ({"racks": ("a", "b")}, True),
        ({"racks": ("c",)}, False),
        ({"hosts": ("10.0.3.0/24",)}, True),
        ({"hosts": ("10.0.3.17",), "racks": ("c",)}, False),
        ({"hosts": ("10.0.3.18",)}, False),
        ({"client_ids": ("*",)}, False),  # that is no place
    ],
)
def test_a_broker_is_in_a_place(target, takes):
    assert DrainTarget(**target).takes_broker(BrokerNode(1, Address("10.0.3.17", 9092), "a")) is takes


def test_values_of_one_kind_add_up_and_kinds_narrow_down():
    one = member(client_host="10.0.0.1", rack="a")
    assert DrainTarget(hosts=("10.0.0.2", "10.0.0.1"), racks=("a",)).takes(one)
    assert not DrainTarget(hosts=("10.0.0.2", "10.0.0.1"), racks=("b",)).takes(one)


def test_a_target_without_any_value_is_refused():
    with pytest.raises(UsageError, match="no members selected"):
        DrainTarget()


def test_values_that_match_no_member_are_named_each_by_itself():
    target = DrainTarget(hosts=("10.0.0.1", "10.0.0.9"), racks=("b",), client_ids=("*",))
    assert target.unmatched([member(client_host="10.0.0.1", rack="a")]) == ("--host 10.0.0.9", "--rack b")


def test_names_of_hosts_become_their_addresses():
    assert "127.0.0.1" in with_addresses(["localhost"])
    assert with_addresses(["10.0.0.1", "10.0.0.*", "10.0.0.0/24", "10.0.0.1"]) == (
        "10.0.0.1",
        "10.0.0.*",
        "10.0.0.0/24",
    )


def test_a_name_without_an_address_is_an_error():
    with pytest.raises(NotFoundError, match=r"host no-such-host\.invalid has no address"):
        with_addresses(["no-such-host.invalid"])


@pytest.mark.parametrize(
    "host", ["127.0.0.1/99", "10.0.0.0/255.0.255.0", "10.0.0.*/24", "::1/129", "host/24", "/10.0.3.17"]
)
def test_a_network_that_is_none_is_a_usage_error(host):
    with pytest.raises(UsageError, match="is not a network") as caught:
        with_addresses([host])
    assert caught.value.exit_code == 2
