"""The short form in which the server hands Heartbeats to a coordinator: whatever the history, a coordinator that gets
them so is as one that gets them as requests. (The lockstep with Kafka hands over every other Heartbeat so.)"""

import random
from dataclasses import replace

from kgm.coordinator.contract.broker_version import BrokerVersion
from kgm.coordinator.contract.outcome import session_key
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.heartbeat_response import HeartbeatResponse
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from tests.coordinator.harness import Harness, subscription
from tests.selection import first_seed

FIRST, HISTORIES = first_seed(), 150
VERSIONS = [BrokerVersion.parse(text) for text in ("2.8.2", "3.9.1", "4.0.0", "4.3.0")]
INSTANCES = ("a", "b", None)


class ShortHarness(Harness):
    """Hands over Heartbeats in the short form where that is possible. shorts: how often it was."""

    shorts = 0

    def send(self, message, version, **of_client):
        if isinstance(message, HeartbeatRequest) and self.runtime.keep_alive(
            message.group_id, message.generation_id, message.member_id, message.group_instance_id, self.now
        ):
            self.shorts += 1
            ticket = next(self.tickets)
            self.sent.append(ticket)
            self.replies[ticket] = HeartbeatResponse()
            return ticket
        return super().send(message, version, **of_client)


def state(h):
    """Everything that may depend on how a Heartbeat came in."""
    runtime, engine = h.runtime, h.engine
    return (
        list(engine.deadlines.items()),
        runtime.next_timer(),
        runtime._turns,
        engine.groups(),
        h.log,
        h.replies,
    )


def history(seed):
    rng = random.Random(seed)
    settings = {"group_initial_rebalance_delay_ms": 500, "kafka_version": rng.choice(VERSIONS)}
    pair = ShortHarness(**settings), Harness(**settings)
    known = [("stranger", None), ("", None)]
    for _ in range(80):
        group = rng.choice(("g", "g", "g", "h", ""))
        member, instance = rng.choice(known[-6:] + known[:2])
        generation = rng.choice((1, 1, 2, 2, 3, 4, -1))
        view = pair[1].engine.group("g")
        if view is not None and rng.random() < 0.8:
            generation = view.generation
        claimed = rng.choice((instance, instance, instance, *INSTANCES))
        kind = rng.choices(("heartbeat", "join", "sync", "leave", "sleep", "heal", "fork"), (10, 4, 3, 1, 3, 2, 1))[0]
        session, new, newcomer = rng.choice((6_000, 10_000, 30_000)), rng.random() < 0.5, rng.choice(INSTANCES)
        ms = rng.choice((0, 1, 400, 500, 3_000, 5_999, 9_999, 10_000))
        for h in pair:
            match kind:
                case "heartbeat":
                    h.heartbeat(member, generation, claimed, group=group)
                case "join" if new:
                    h.join("", newcomer, group=group, session=session)
                case "join":
                    h.join(member, claimed, group=group, session=session, protocols={"range": subscription()})
                case "sync":
                    h.sync(
                        member, generation, dict.fromkeys(h.member_ids(), b"x") if h.engine.group("g") else {}, claimed
                    )
                case "leave":
                    h.leave((member, claimed))
                case "sleep":
                    h.sleep(ms)
                case "heal" if h.engine.group("g") is not None:
                    heal(h)
                case "fork":
                    h.runtime = h.runtime.fork()
                    h.engine = h.runtime.engine
                    h.runtime._append = h.append
        if (view := pair[1].engine.group("g")) is not None:
            known += [(m.member_id, m.group_instance_id) for m in view.members]
        assert state(pair[0]) == state(pair[1]), (seed, kind)
    return pair[0].shorts


def heal(h):
    """The round comes to its end, and the group is Stable if it has members."""
    for _ in range(20):
        view = h.engine.group("g")
        if view is None or view.state in ("Stable", "Empty", "Dead"):
            return
        for member in view.members:
            if view.state == "PreparingRebalance":
                h.join(member.member_id, member.group_instance_id)
            else:
                h.sync(member.member_id, view.generation, dict.fromkeys(h.member_ids(), b"x"), member.group_instance_id)
        h.sleep(500)


def test_a_heartbeat_in_the_short_form_is_as_one_that_is_handled():
    assert sum(history(seed) for seed in range(FIRST, FIRST + HISTORIES)) > 2 * HISTORIES


def test_the_short_form_is_for_members_of_stable_groups_only():
    h = Harness()
    a, b = h.completing("a", "b")
    for member, generation, instance in ((a, 1, "a"), (b, 1, None)):
        assert not h.runtime.keep_alive("g", generation, member, instance, h.now)
    h.sync(a, 1, {a: b"x", b: b"y"})
    short = h.runtime.keep_alive
    assert short("g", 1, a, "a", h.now)
    assert short("g", 1, a, None, h.now)
    for group, generation, member, instance in (
        ("g", 2, a, "a"), ("g", 0, a, "a"), ("g", 1, "m", "a"), ("g", 1, a, "b"), ("g", 1, a, "nobody"),
        ("g", 1, "m", None), ("h", 1, a, "a"), ("", 1, a, "a"),
    ):  # fmt: skip
        assert not short(group, generation, member, instance, h.now)
    h.join(a, "a", protocols={"range": subscription("payments")})
    assert h.state() == "PreparingRebalance"
    assert not short("g", 1, b, "b", h.now)


def test_a_session_that_becomes_shorter_is_left_to_others():
    """So whoever waits for the next timer is told."""
    h = Harness()
    (a,) = h.stable("a", session=30_000)
    rejoined = h.got(h.join(a, "a", session=10_000))
    assert (rejoined.error_code, h.state()) == (E.NONE, "CompletingRebalance")
    h.sync(a, 2, {a: b"x"}, "a")
    key = session_key("g", a)
    h.engine._deadlines[key] = before = h.now + 30_000  # as after another order of events
    assert not h.runtime.keep_alive("g", 2, a, "a", h.now)
    assert h.engine.deadline(key) == before
    assert h.heartbeat(a, 2, "a") == E.NONE
    assert h.engine.deadline(key) == h.now + 10_000
    assert h.runtime.next_timer() == (key, h.now + 10_000)
    assert h.runtime.keep_alive("g", 2, a, "a", h.now)


def test_what_is_due_goes_first():
    h = Harness()
    a, b = h.stable("a", "b")
    h.sleep(5_000)
    assert h.heartbeat(b, 1, "b") == E.NONE
    late = h.now + 5_000
    assert not h.runtime.keep_alive("g", 1, b, "b", late)
    assert h.runtime.keep_alive("g", 1, a, "a", late - 1)


def test_a_group_without_an_id_is_refused():
    """No request makes such a group; a log may have one."""
    h = Harness()
    (a,) = h.stable("a")
    other = h.reload([replace(h.log[-1], key=GroupMetadataKey(group=""))])
    assert other.engine.group("").state == "Stable"
    assert not other.runtime.keep_alive("", 1, a, "a", other.now)
    assert other.heartbeat(a, 1, "a", group="") == E.INVALID_GROUP_ID
