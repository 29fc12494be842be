"""Who is taken to lead a group in which Java and librdkafka are mixed: no API tells, so it is said where it matters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.model.broker_version import BrokerVersion
from kgm.model.client_library import stated_library
from kgm.operations.removal.leader import possible_leaders
from kgm.operations.removal.preview import preview_moves
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.simulation.groups import made_up


def mixed(*libraries, assignor="cooperative-sticky", partitions=13):
    """Static members of these libraries, the last of which is to be removed."""
    group = made_up(len(libraries), partitions, assignor=assignor)
    members = zip(group.members, libraries, strict=True)
    return replace(group, members=tuple(replace(m, client_library=stated_library(library)) for m, library in members))


def last(group):
    return {group.members[-1].member_id}


def leaders(group):
    return [one.what for one in possible_leaders(group, last(group))]


JAVA, LIBRDKAFKA = "a Java consumer", "a librdkafka consumer"


def parsed(*versions):
    return tuple(map(BrokerVersion.parse, versions))


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        (("java", "java", "librdkafka"), [JAVA]),  # who goes leads nobody
        (("java", "librdkafka", "java"), [JAVA, LIBRDKAFKA]),
        (("librdkafka", "librdkafka", "java"), [LIBRDKAFKA]),
        ((None, "librdkafka", "java"), [JAVA, LIBRDKAFKA]),  # librdkafka gives itself away: the other is likely Java's
        ((None, None, None), [JAVA]),
    ],
)
def test_java_is_the_more_likely_one_unless_all_that_stay_are_librdkafkas(libraries, expected):
    assert leaders(replace(mixed(*libraries), kafka_versions=parsed("4.1", "4.2"))) == expected


@pytest.mark.parametrize("change", [{"assignor": "sticky"}, {"type": "consumer"}])
def test_only_one_library_may_lead(change):
    """librdkafka has no `sticky`; a consumer group's assignor runs in the broker."""
    assert leaders(replace(mixed("java", "librdkafka", "java"), **change)) == [JAVA]


@pytest.mark.parametrize("versions", [(), ("3.9", "3.9+new"), ("3.9", "4.0")])
def test_both_coordinators_count_where_it_is_not_known_which_one_it_is(versions):
    group = replace(mixed("librdkafka", "librdkafka", "java"), kafka_versions=parsed(*versions))
    assert leaders(group) == [
        f"{LIBRDKAFKA} on a broker with the coordinator in Java",
        f"{LIBRDKAFKA} on a broker with the coordinator in Scala",
    ]


#: Ids that maps of Java's and Scala's list in other orders.
IDS = ["rdkafka-d554bbb3", "rdkafka-fa96494b", "rdkafka-d2b7e673", "rdkafka-a3f50d37", "rdkafka-20557edd"]


@pytest.mark.parametrize("library", ["librdkafka", "kafka-python"])
def test_the_order_of_the_brokers_map_decides(library):
    """With static and dynamic members. librdkafka does not sort them; kafka-python groups neighbors of each kind, and
    leaves out all but the last group of each."""
    group = mixed(*[library] * len(IDS), assignor="range", partitions=16)
    changed = (
        replace(member, member_id=name, group_instance_id=f"i-{place}" if place % 2 else None, listed_at=None)
        for place, (member, name) in enumerate(zip(group.members, IDS, strict=True))
    )
    group = replace(group, members=tuple(changed))
    known = {
        version: preview_moves(replace(group, kafka_versions=parsed(version)), last(group))
        for version in ("2.8", "3.9", "3.9+new", "4.3")
    }
    assert known["2.8"].moves == known["3.9"].moves != known["4.3"].moves == known["3.9+new"].moves
    assert {one.notes for one in known.values()} == {()}
    unknown = preview_moves(group, last(group))
    assert unknown.moves == known["4.3"].moves
    assert "a broker with the coordinator in Scala, which may lead it as well" in unknown.notes[0]


@pytest.mark.parametrize(("assignor", "notes"), [("cooperative-sticky", 1), ("range", 0)])
def test_the_assumption_is_told_where_the_moves_depend_on_it(assignor, notes):
    group = replace(mixed("java", "librdkafka", "java", "java", assignor=assignor), kafka_versions=parsed("4.3"))
    found = preview_moves(group, last(group))
    assert found.moves
    assert len(found.notes) == notes
    assert all("assume that a Java consumer leads the group" in text for text in found.notes)


def test_nothing_is_told_of_moves_that_are_not_known():
    group = replace(mixed("java", "librdkafka", "java"), state="PreparingRebalance")
    found = preview_moves(group, last(group))
    assert (found.moves, found.notes) == (None, ())


def test_a_prediction_is_not_exact_where_the_leader_decides_however_rare_the_other_library_is():
    group = mixed(*["java"] * 11, "librdkafka", partitions=40)
    plan = Plan(scale_in=(group.members[0].identity,), heartbeat_interval_ms=3_000)
    scenario = simulate(group, plan, draws=3)
    assert not scenario.exact
    assert any("whether a Java or a librdkafka member leads is not known" in said for said in scenario.caveats)
    alone = simulate(mixed(*["java"] * 12, partitions=40), plan, draws=3)
    assert alone.exact


def test_a_prediction_is_exact_where_both_libraries_agree():
    group = mixed(*["java"] * 3, "librdkafka", assignor="range", partitions=12)
    scenario = simulate(group, Plan(scale_in=(group.members[0].identity,), heartbeat_interval_ms=3_000), draws=3)
    assert scenario.exact
    assert not any("leads is not known" in said for said in scenario.caveats)
