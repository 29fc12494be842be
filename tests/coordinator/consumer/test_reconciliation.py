"""How a member gets to its target: behaviour B102 of Apache Kafka 4.3.0 (CurrentAssignmentBuilder), as a table.

Partitions of topics `t` and `u`; a member is at epoch 10 unless its state says otherwise, its target at 11."""

import pytest

from kgm.coordinator.consumer.reconciliation import Reconciliation, UnknownStateError
from kgm.coordinator.groups.consumer_member import ConsumerMember
from kgm.records.member_states import MemberState
from tests.coordinator.behaviours import rule

S, UNREVOKED, UNRELEASED, UNKNOWN = (
    MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS, MemberState.UNKNOWN,
)  # fmt: skip
T, U = b"t" * 16, b"u" * 16


def held(text):
    """`t0 t1@9 u2`: partitions with their epochs, 10 if nothing is said."""
    found = {}
    for word in text.split():
        name, _, epoch = word.partition("@")
        found.setdefault(T if name[0] == "t" else U, {})[int(name[1:])] = int(epoch or 10)
    return found


def shown(assigned):
    return " ".join(
        f"{'t' if topic == T else 'u'}{partition}" + (f"@{epoch}" if epoch != 10 else "")
        for topic, rows in sorted(assigned.items())
        for partition, epoch in sorted(rows.items())
    )


def step(
    *, state=S, epoch=10, has="", revoking="", target="", target_epoch=11, taken="", owned=None, wants="tu", changed=False
):  # fmt: skip
    member = ConsumerMember(
        "m", member_epoch=epoch, previous_member_epoch=epoch, state=state, assigned=held(has), pending_revocation=held(revoking)
    )  # fmt: skip
    others = {(topic, partition) for topic, rows in held(f"{taken} {has} {revoking}").items() for partition in rows}
    after = Reconciliation(
        member=member,
        target_epoch=target_epoch,
        target={topic: tuple(sorted(rows)) for topic, rows in held(target).items()},
        is_subscribed=lambda topic: ("t" if topic == T else "u") in wants,
        owner_epoch=lambda topic, partition: 10 if (topic, partition) in others else None,
        owned=None if owned is None else held(owned),
        subscribes_to_nothing=not wants,
        subscription_changed=changed,
    ).next()
    if after is member:
        return "the same"
    return after.state, after.member_epoch, shown(after.assigned), shown(after.pending_revocation)


CASES = {
    "stable, nothing new": ({"has": "t0", "target": "t0", "target_epoch": 10}, "the same"),
    "stable, the same target in a new epoch": ({"has": "t0 u1", "target": "t0 u1"}, (S, 11, "t0 u1", "")),
    "stable, more": ({"has": "t0", "target": "t0 t1 u0"}, (S, 11, "t0 t1@11 u0@11", "")),
    "stable, less": ({"has": "t0 t1 u0", "target": "t0"}, (UNREVOKED, 10, "t0", "t1 u0")),
    "stable, other ones": ({"has": "t0 t1", "target": "t1 t2"}, (UNREVOKED, 10, "t1", "t0")),
    "stable, less, and it has given it up already": ({"has": "t0 t1", "target": "t0", "owned": "t0"}, (S, 11, "t0", "")),
    "stable, other ones, given up already": ({"has": "t0 t1", "target": "t1 t2", "owned": "t1"}, (S, 11, "t1 t2@11", "")),
    "stable, more, but all of it is taken": ({"has": "t0", "target": "t0 t1", "taken": "t1"}, (UNRELEASED, 11, "t0", "")),
    "stable, more, part of it taken": (
        {"has": "t0", "target": "t0 t1 t2", "taken": "t2"}, (UNRELEASED, 11, "t0 t1@11", "")
    ),
    "stable, nothing is left for it": ({"has": "t0", "target": ""}, (UNREVOKED, 10, "", "t0")),
    "unrevoked, it says nothing of what it owns": (
        {"state": UNREVOKED, "has": "t0", "revoking": "t1", "target": "t0"}, "the same"
    ),
    "unrevoked, it owns it still": (
        {"state": UNREVOKED, "has": "t0", "revoking": "t1 u0", "target": "t0", "owned": "t0 u0"}, "the same"
    ),
    "unrevoked, it has given it up": (
        {"state": UNREVOKED, "has": "t0", "revoking": "t1", "target": "t0", "owned": "t0"}, (S, 11, "t0", "")
    ),
    "unrevoked, given up, and more to give up": (
        {"state": UNREVOKED, "has": "t0 t2", "revoking": "t1", "target": "t0", "owned": "t0 t2"}, (UNREVOKED, 10, "t0", "t2")
    ),
    "unrevoked, given up, and what it gets is taken": (
        {"state": UNREVOKED, "has": "t0", "revoking": "t1", "target": "t0 t2", "taken": "t2", "owned": "t0"}, (UNRELEASED, 11, "t0", "")
    ),
    "unrevoked, and it is to have it again (KAFKA-19449)": (
        {"state": UNREVOKED, "has": "t0", "revoking": "t1", "target": "t0 t1", "owned": "t0"}, (S, 11, "t0 t1@11", "")
    ),
    "unreleased, it is still taken": (
        {"state": UNRELEASED, "epoch": 11, "has": "t0", "target": "t0 t1", "taken": "t1"}, (UNRELEASED, 11, "t0", "")
    ),
    "unreleased, it is free now": (
        {"state": UNRELEASED, "epoch": 11, "has": "t0", "target": "t0 t1"}, (S, 11, "t0 t1@11", "")
    ),
    "unreleased, and there is a newer target that takes away": (
        {"state": UNRELEASED, "epoch": 10, "has": "t0 t1", "target": "t0"}, (UNREVOKED, 10, "t0", "t1")
    ),
    "unreleased, and a newer target without what it waited for": (
        {"state": UNRELEASED, "epoch": 10, "has": "t0", "target": "t0", "taken": "t1"}, (S, 11, "t0", "")
    ),
    "of a later Kafka, and it owns nothing": ({"state": UNKNOWN, "has": "t0", "target": "t1", "owned": ""}, (S, 11, "t1@11", "")),
    "it left a topic": (
        {"has": "t0 u1", "target": "t0 u1", "target_epoch": 10, "wants": "t", "changed": True}, (UNREVOKED, 10, "t0", "u1")
    ),
    "it left a topic, and owns nothing of it": (
        {"has": "t0 u1", "target": "t0 u1", "target_epoch": 10, "wants": "t", "changed": True, "owned": "t0"}, (S, 10, "t0", "")
    ),
    "it wants another topic, of which it has nothing yet": (
        {"has": "t0", "target": "t0", "target_epoch": 10, "changed": True}, "the same"
    ),
    "it wants nothing any more": (
        {"has": "t0", "target": "t0", "target_epoch": 10, "wants": "", "changed": True}, (UNREVOKED, 10, "", "t0")
    ),
    "it wants nothing, and has nothing: only its epochs are written": (
        {"target_epoch": 10, "wants": "", "changed": True}, (S, 10, "", "")
    ),
    "it left a topic while it gives up another": (
        {"state": UNREVOKED, "has": "t0 u1", "revoking": "t2", "target": "t0 u1", "wants": "t", "changed": True},
        (UNREVOKED, 10, "t0", "t2 u1"),
    ),
    "it left nothing while it gives up something": (
        {"state": UNREVOKED, "has": "t0", "revoking": "t2", "target": "t0", "changed": True}, "the same"
    ),
    "a target of a topic that it has left since": ({"has": "t0", "target": "t0 u1", "wants": "t"}, (S, 11, "t0", "")),
}  # fmt: skip


@rule("B102")
@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_transitions(before, after):
    assert step(**before) == after


@rule("B102")
@pytest.mark.parametrize("owned", [None, "t0"])
def test_an_unknown_state_has_to_be_left(owned):
    with pytest.raises(UnknownStateError):
        step(state=UNKNOWN, has="t0", target="t0", owned=owned)


@rule("B102")
def test_kept_partitions_keep_their_epoch():
    assert step(has="t0@3 t1@7", target="t0 t1 t2") == (S, 11, "t0@3 t1@7 t2@11", "")
