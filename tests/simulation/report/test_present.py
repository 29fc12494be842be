"""What a group must show before its future can be exact: every subscribed partition with an owner that can be read, a
consumer group at its epoch, and no racks where the assignor may go by them."""

from dataclasses import replace

import pytest

from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, WhatIf
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.simulation.groups import STATIC, made_up

LEAVE, RESTART = {"scale_in": ("member-3",)}, {"bounce": ("member-1", "member-2", "member-3")}


def played(group, **plan):
    return simulate(group, Plan(**{"restart_time_ms": 2_000, **plan}), draws=5)


def said(prediction, text):
    return any(text in caveat for caveat in prediction.caveats)


def with_member(group, number, **changes):
    members = list(group.members)
    members[number] = replace(members[number], **changes)
    return replace(group, members=tuple(members))


def consumer_group(**changes):
    made = synthetic_group(3, [TopicSnapshot(name="t", partitions=12)], STATIC, "uniform", GroupProtocol.CONSUMER)
    members = tuple(
        replace(one, member_epoch=1, status="stable", target_assignment=one.assignment) for one in made.members
    )
    return replace(made, members=members, **changes)


@pytest.mark.parametrize("plan", [LEAVE, RESTART])
@pytest.mark.parametrize("group", [made_up(3, 12), made_up(3, 12, assignor="sticky"), consumer_group()])
def test_a_group_whose_partitions_all_have_owners_stays_exact(group, plan):
    assert played(group, **plan).exact
    # Nobody subscribes to this one.
    assert played(replace(group, topics=(*group.topics, TopicSnapshot(name="u", partitions=3))), **plan).exact


def test_members_without_partitions_are_no_reason_to_rebalance():
    assert played(made_up(3, 2), **RESTART).exact


@pytest.mark.parametrize("plan", [LEAVE, RESTART])
@pytest.mark.parametrize("group", [made_up(3, 12), consumer_group()])
@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        (24, "12 subscribed partitions have no owner, for example t-12"),
        (11, "1 assigned partition does not exist any more, for example t-11"),
    ],
)
def test_a_topic_that_has_changed_causes_a_rebalance_of_its_own(group, plan, partitions, text):
    """Clients look for new partitions every five minutes (metadata.max.age.ms), and the broker does so too (KIP-848)."""
    changed = played(replace(group, topics=(TopicSnapshot(name="t", partitions=partitions),)), **plan)
    assert not changed.exact
    assert said(changed, text)
    assert changed.ranges.rebalances.max == changed.typical.rebalances + 1
    assert changed.ranges.moved_partitions.max >= min(partitions, 12)


def test_a_topic_that_was_deleted_causes_a_rebalance_of_its_own():
    gone = played(replace(made_up(3, 12), topics=(), deleted_topics=("t",)), **RESTART)
    assert not gone.exact
    assert said(gone, "12 assigned partitions do not exist any more, for example t-0")


def test_revoked_partitions_are_assigned_in_the_next_round():
    """KIP-429: between the two rounds of a rebalance the group is Stable."""
    group = made_up(3, 12, assignor="cooperative-sticky")
    group = replace(group, members=tuple(replace(one, names_owned=True) for one in group.members))
    assert played(group, **RESTART).exact
    revoked = played(with_member(group, 2, assignment={"t": (2, 5)}), **RESTART)
    assert (revoked.exact, revoked.ranges.rebalances.min, revoked.ranges.rebalances.max) == (False, 0, 2)
    assert said(revoked, "2 subscribed partitions have no owner, for example t-8")


def test_what_the_assignor_leaves_without_an_owner_stays_so():
    """A leader of platformatic gives the topics that it names itself: nobody gets the other member's second topic."""
    library = stated_library("platformatic")
    group = GroupSnapshot(
        group_id="g", type="classic", state="Stable", assignor="roundrobin", session_timeout_ms=60_000, leader="a-1",
        rebalance_timeout_ms=100_000, leader_library=library,
        topics=(TopicSnapshot(name="t", partitions=2), TopicSnapshot(name="u", partitions=1)),
        members=(
            MemberSnapshot(member_id="a-1", topics=("t",), assignment={"t": (0,)}, client_library=library, listed_at=0),
            MemberSnapshot(
                member_id="b-1", topics=("t", "u"), assignment={"t": (1,)}, client_library=library, listed_at=1
            ),
        ),
    )  # fmt: skip
    assert not said(played(group, scale_in=("b-1",)), "no owner")
    other = replace(group, leader="b-1")
    assert said(played(other, scale_in=("b-1",)), "1 subscribed partition has no owner, for example u-0")


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (consumer_group(group_epoch=2), "the target assignment is that of epoch 1, and the group is at 2"),
        (with_member(consumer_group(), 1, member_epoch=0), "not all reached the target assignment (member-2)"),
        (with_member(consumer_group(), 1, status="reconciling"), "not all reached the target assignment (member-2)"),
        (with_member(consumer_group(), 1, target_assignment={"t": (0,)}), "target assignment (member-2)"),
    ],
)
@pytest.mark.parametrize("plan", [LEAVE, RESTART])
def test_a_consumer_group_on_its_way_is_not_stable_whatever_its_state(group, text, plan):
    found = played(group, **plan)
    assert not found.exact
    assert said(found, text)
    assert found.ranges.moved_partitions.max == 12
    supposed = played(group, **plan, what_if=WhatIf(assignor="range"))
    assert not said(supposed, text)


def test_what_cannot_be_read_is_not_nothing():
    group = with_member(made_up(3, 12), 1, is_readable=False, assignment={})
    gone = played(group, **LEAVE)
    assert not gone.exact
    assert said(gone, "the assignment of member-2 cannot be read")
    assert gone.ranges.moved_partitions.max == 12
    assert played(group, **RESTART).exact


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_what_moves_between_members_with_racks_is_not_known(assignor):
    """KIP-881: Java's assignors match the racks of members and replicas; a snapshot has no racks of replicas."""
    group = made_up(3, 12, assignor=assignor)
    racks = [replace(one, rack=f"r{n}", names_owned=True) for n, one in enumerate(group.members)]
    group = replace(group, members=tuple(racks))
    gone = played(group, **LEAVE)
    assert not gone.exact
    assert (gone.ranges.moved_partitions.min, gone.ranges.moved_partitions.max) == (4, 12)
    assert said(gone, "may assign members partitions of their own racks")
    assert played(group, **RESTART).exact


def test_assignors_that_take_no_racks_stay_exact():
    """roundrobin, those of the broker since 4.0, and the other libraries."""
    for group in (made_up(3, 12, assignor="roundrobin"), consumer_group()):
        racks = tuple(replace(one, rack=f"r{n}") for n, one in enumerate(group.members))
        assert played(replace(group, members=racks), **LEAVE).exact


def by_expression(expression, *, topics=("t", "u")):
    """Two members of a consumer group, as a real one of Kafka 4.3.0 was described: the first subscribes by this expression
    and owns t-0, the second names the topics and owns u-0."""
    first, second, _ = consumer_group().members
    one = {"t": (0,)}, {"u": (0,)}
    members = (
        replace(first, topics=(), regex=expression, assignment=one[0], target_assignment=one[0]),
        replace(second, topics=topics, assignment=one[1], target_assignment=one[1]),
    )
    topics_now = tuple(TopicSnapshot(name=name, partitions=1) for name in "tu")
    return replace(consumer_group(), members=members, topics=topics_now)


@pytest.mark.parametrize("topics", [("t", "u"), ("u",)])
def test_a_regular_expression_takes_over_what_others_owned(topics):
    """On a real broker the first member ended with t-0 and u-0: the broker resolves expressions over all topics."""
    gone = played(by_expression(".*", topics=topics), scale_in=("member-2",))
    assert gone.typical.final_assignment == {"member-1": {"t": (0,), "u": (0,)}}
    other = played(by_expression("t.*", topics=topics), scale_in=("member-2",))
    assert other.typical.final_assignment == {"member-1": {"t": (0,)}}


def test_a_topic_that_matches_and_has_no_owner_is_still_to_come():
    group = by_expression("[tv]")
    grown = replace(group, topics=(*group.topics, TopicSnapshot(name="v", partitions=2)))
    assert played(group, bounce=("member-1",)).exact
    due = played(grown, bounce=("member-1",))
    assert not due.exact
    assert said(due, "2 subscribed partitions have no owner, for example v-0")


def test_a_restart_that_nobody_notices_has_its_condition():
    """At 6 s with the usual 5 s between heartbeats too, where it is not certain that a restart is in time."""
    for session_ms in (6_000, 45_000):
        group = consumer_group(session_timeout_ms=session_ms)
        members = tuple(replace(one, session_timeout_ms=None) for one in group.members)
        quick = played(replace(group, members=members), bounce=("member-1",), restart_time_ms=500)
        assert quick.exact
        assert said(quick, f"this holds as long as every process is back within {session_ms // 1000} s")


def test_an_expression_that_cannot_be_matched_is_a_reason_not_to_know(mocker):
    group = by_expression(".*")
    mocker.patch("kgm.java.re2j.is_installed", return_value=False)
    gone = played(group, scale_in=("member-2",))
    assert not gone.exact
    assert said(gone, "kgm cannot match the regular expression of member-1")


def test_a_session_timeout_that_is_not_known_may_be_shorter_in_a_consumer_group_too():
    """A real broker with group.consumer.session.timeout.ms=6000: a restart of 30 s was two rebalances."""
    group = consumer_group(session_timeout_ms=None)
    unknown = replace(group, members=tuple(replace(one, session_timeout_ms=None) for one in group.members))
    late = played(unknown, bounce=("member-1",), restart_time_ms=30_000)
    assert not late.exact
    assert (late.ranges.rebalances.min, late.ranges.rebalances.max) == (0, 2)
    assert said(late, "the session timeout is not known: if it is 6 s, expect 2 rebalances")
    assert played(unknown, bounce=("member-1",), restart_time_ms=100).exact  # after up to 5 s without a heartbeat
    stated = WhatIf(session_timeout_ms=45_000)
    assert played(unknown, bounce=("member-1",), restart_time_ms=30_000, what_if=stated).exact


def pattern_group(**changes):
    """Static Java members whose pattern `^T-.*` matches two topics; a third one is new. A real group of them handed 6
    partitions over, and moved 11, when one was removed: all had found the new topic before they joined again."""
    topics = [TopicSnapshot(name="T-a", partitions=5), TopicSnapshot(name="T-b", partitions=3)]
    made = synthetic_group(3, topics, STATIC, "roundrobin", GroupProtocol.CLASSIC)
    library = stated_library(changes.pop("library", "java"))
    members = tuple(replace(one, client_library=library) for one in made.members)
    return replace(
        made, members=members, **{"similar_topics": (TopicSnapshot(name="T-0", partitions=5),), **changes}
    )  # fmt: skip


@pytest.mark.parametrize("plan", [{"remove": ("member-2",)}, {"scale_in": ("member-2",)}])
def test_a_rebalance_may_bring_a_topic_that_is_named_like_the_others(plan):
    assert played(pattern_group(similar_topics=()), **plan).exact
    found = played(pattern_group(), **plan)
    assert not found.exact
    assert said(found, "T-0: named like the topics of member-1, member-3. If these come from a regular expression")
    assert found.ranges.moved_partitions.max >= 11
    assert found.ranges.handovers.max >= 6
    # librdkafka does not look for topics before it joins.
    assert played(pattern_group(library="librdkafka"), **plan).exact


def test_without_a_rebalance_it_is_said_that_one_may_be_due():
    """A topic was created before a real group of static Java members with a pattern restarted: nothing moved by the
    restart, and a rebalance came when the others had looked for topics, after metadata.max.age.ms."""
    found = played(pattern_group(), **RESTART)
    assert found.exact
    assert said(
        found, "there will be a rebalance, whatever is planned, that brings what was created in the last minutes"
    )


def test_a_deleted_topic_that_an_expression_still_matches():
    """A real group of 3 had one more epoch and one more target assignment than its restart causes."""
    group = consumer_group()
    members = tuple(replace(one, topics=(), regex="t.*") for one in group.members)
    there = replace(group, members=members)
    assert not said(played(there, **RESTART), "may still count as matched")
    found = played(replace(there, deleted_topics=("t-old",)), **RESTART)
    assert not found.exact
    assert said(found, "t-old does not exist any more, but may still count as matched by an expression")
    assert found.ranges.rebalances.max >= 1
    # Committed offsets of a topic that the expression does not match.
    assert not said(played(replace(there, deleted_topics=("u",)), **RESTART), "may still count as matched")
