"""Who is taken to lead a group in which Java and librdkafka are mixed: no API tells, so it is said where it matters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.operations.removal.leader import assumed_leader, other_possible_leader
from kgm.operations.removal.preview import preview_moves
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.simulation.groups import made_up


def mixed(*libraries, assignor="cooperative-sticky", partitions=13):
    """Static members of these libraries, the last of which is to be removed."""
    group = made_up(len(libraries), partitions, assignor=assignor)
    members = zip(group.members, libraries, strict=True)
    return replace(group, members=tuple(replace(m, client_library=library) for m, library in members))


def last(group):
    return {group.members[-1].member_id}


@pytest.mark.parametrize(
    ("libraries", "assumed", "other"),
    [
        (("java", "java", "librdkafka"), None, False),  # who goes leads nobody
        (("java", "librdkafka", "java"), None, True),
        (("librdkafka", "librdkafka", "java"), "librdkafka", False),
        ((None, "librdkafka", "java"), None, True),  # librdkafka gives itself away: who does not is most likely Java's
        ((None, None, None), None, False),
    ],
)
def test_java_is_assumed_unless_all_that_stay_are_librdkafkas(libraries, assumed, other):
    group = mixed(*libraries)
    assert (assumed_leader(group, last(group)) is not None) == (assumed == "librdkafka")
    assert (other_possible_leader(group, last(group)) is not None) == other


@pytest.mark.parametrize("change", [{"assignor": "sticky"}, {"type": "consumer"}])
def test_only_one_library_may_lead(change):
    """librdkafka has no `sticky`; a consumer group's assignor runs in the broker."""
    group = replace(mixed("java", "librdkafka", "java"), **change)
    assert other_possible_leader(group, last(group)) is None


@pytest.mark.parametrize(("assignor", "notes"), [("cooperative-sticky", 1), ("range", 0)])
def test_the_assumption_is_told_where_the_moves_depend_on_it(assignor, notes):
    group = mixed("java", "librdkafka", "java", "java", assignor=assignor)
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
