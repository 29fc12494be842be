"""docs/clients.md, made from the table of client libraries and from the recorded groups."""

from __future__ import annotations

import pathlib

from kgm.assignors import has_assignor
from kgm.clients.table import CLIENTS, ClientTraits, SubscriptionForm
from tests.clients.recorded_groups import RECORDED

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "clients.md"
JAVA_VERSION = "4.3.0"
USUAL = ("range", "roundrobin", "sticky", "cooperative-sticky")
_BEFORE = """\
# Client libraries

In a classic group one of the members, the leader, computes the assignments, and libraries differ: in what they send, in
what their assignors of the same name return, and in what a static member does when it is closed. kgm simulates
consumers of **Java** and **librdkafka** as they are, and those of the other libraries as far as it knows them, each
with its own assignors; a prediction is exact only where the answer does not depend on how they behave.

`python bench/scenes.py` draws random scenes of all of them, and compares predictions with what a real broker and real
clients then do.

## Which library a member runs on

`kgm describe -o json` has `client_library` for each member: `name`, `confidence`, `evidence`, and the `candidates` that
the evidence leaves. `-o wide` shows it in the column CLIENT. `leader_library` of a classic group is the library of the
leader that wrote its assignments.

- `certain`: what the member sent can only come from this library, or an operator has stated it.
- `likely`: several libraries send that, and weaker evidence leaves one of them: what the leader wrote, default timeouts
  (from the group's record, which requires READ on `__consumer_offsets`), a default client id.
  What the leader wrote says which library led. If all members send the same, one of them may still run on another
  library: they count as Java only if that one's assignor would assign the same (franz-go's range and roundrobin).
- `unknown`: several are left, or none that kgm knows; `name` is null.

A client id is chosen by whoever configures the client. It never overrides what a member sent. If it is all that is
known of a member of a classic group, the member is simulated with that library, which counts as unknown. With an
assignor that none of these libraries has, nothing is `certain`.

## Whose assignor runs

The assignor of the leader's library: in predictions, in previews of a removal, and when kgm checks that it can explain
the current assignment. If the evidence leaves several libraries, the ranges cover what each of them would do. The
sticky assignors of franz-go and sarama follow the order of Go maps, which differs from run to run: where that order
decides, each draw takes another one, the answer is never exact, and a caveat says so. With platformatic, what a restart
moves is random: its roundrobin takes members in the order of a hash map of their ids, and a new process has a random
id. In 59 scenes of it 27 moved the lowest number of the range, 15 the highest, and 17 a number in between. For an
assignor that kgm does not have, what moves is a range from the partitions that must move to all of them. `kgm assign`
takes topics and members in the order of their names.

The assignors are compared with the libraries themselves (`tests/assignors/libraries`): always 50 recorded answers of
each, and 500 others with `--long`. `kgm assign --library NAME` runs them.

## When a prediction is exact

1. For members that certainly run on Java or librdkafka, and for those that likely do if the other `candidates` do the
   same with the group's assignor. A client id alone leaves the others among the candidates.
2. Otherwise where the library does not matter: static members restart within their session, the group uses range or
   roundrobin, and their library does not leave when it is closed.
3. Never where the leader library's version of the assignor that a group names does not explain the group's assignment:
   then it is another assignor with that name, and what a rebalance moves is not known. The same if no library writes
   assignments as the leader did. Nor for an assignor that kgm does not know, of a leader or of the broker
   (`group.consumer.assignors`): then kgm shows the number of rebalances, with ranges for who gets what.
4. With a cooperative assignor, where each member that has partitions names some that it has kept (`names_owned` in JSON),
   or its library keeps them in any case. Otherwise the member's settings may list an eager assignor next to it, as in
   an upgrade to it: then a Java consumer gives up all partitions in each rebalance. The member that joined last has
   none to name in either case: the ranges cover both, and `--assignor cooperative-sticky` states that there is no
   other.
5. Never in a group in which members of several libraries share a sticky assignor: each library reads the others' claims
   in its own way, so what moves is a range up to all partitions.
6. In consumer groups (KIP-848) the broker assigns. There only two things depend on the library: whether a closed static
   member leaves, and what a process does when the broker refuses it (UNRELEASED_INSTANCE_ID). For Java and librdkafka
   that error is fatal.
7. Never while the group may still rebalance without the plan: subscribed partitions have no owner (revoked ones are
   assigned in the next round, and new ones once a client or the broker notices them), assigned ones do not exist any
   more, a deleted topic still counts as matched by a regular expression (KIP-848; with READ on `__consumer_offsets`),
   or members of a consumer group have not reached its epoch or their targets. If anything is assigned, also not where
   the assignment of a member cannot be read, or members have racks and their assignor may go by them (`range` and the
   sticky ones of Java and librdkafka): a snapshot does not have the racks of partitions. With such racks
   `kgm remove-members` does not say which partitions will move.
8. Not if members of a consumer group stop, it rebalances, and its assignor is not the broker's default: the broker
   takes the one for which most members ask (`group.remote.assignor`), and no Kafka API returns who asks. Without those
   that stop, the group may change to the default (the first of `group.consumer.assignors`; for a group in a file,
   `uniform`, unless `--set` says otherwise), so the ranges include that, and `kgm remove-members` does not say which
   partitions will move unless both assignors move the same. `--assignor range` states that all members ask for it. Two
   things are taken for granted: if the assignor is the default, that no member asks for another, and that new members
   ask for the same as the others.
9. In a classic group on two assumptions. All members list the same assignors in the same order
   (`partition.assignment.strategy`; a note says so, also of `kgm remove-members`): a broker chooses one that all members
   list, by the first of these in each list, and returns no others. So if only the members that stop have kept the group
   from changing to another one, the prediction is wrong. `--assignor NAME` states that all list the same. Not where
   the group's records in `__consumer_offsets`, as far back as kgm reads them, show that it has used another assignor
   with some of its members (`earlier_assignors` in JSON): then what a rebalance moves is a range up to all partitions,
   and the number of rebalances includes what the other assignor does. Librdkafka's members of a `cooperative-sticky`
   group can list no other. And processes subscribe to the same topics after a restart. A classic member sends the
   names that match its regular expression, so a process that restarts also subscribes to topics that have been created
   since its library last looked, up to five minutes before (`metadata.max.age.ms`, librdkafka's
   `topic.metadata.refresh.interval.ms`).
10. Not if a classic group rebalances that may bring such a topic. Except for librdkafka's, members that subscribe by a
    regular expression look for topics before they join a rebalance, and no API shows the expression, or when a topic
    was created. So kgm compares topic names: a topic of the cluster that begins or ends as all topics of a member do,
    which does not subscribe to it, is named in a caveat, and anything may move. The moves of `kgm remove-members` are then an
    estimate. At least three characters have to be the same, or one before a separator (`.`, `_`, `-`). Not
    looked at are topics of which a partition has had another leader since they were created: those are taken to be
    older than five minutes. If the plan causes no rebalance, it is exact as far as the plan goes, and the caveat says that
    one may be due. An expression that matches names that are not alike, a topic that kgm may not describe, and
    groups in a file are taken to bring nothing.
11. In a classic group on the assumption that no program on librdkafka unsubscribes before it closes its consumer:
    then a static member leaves, which is two rebalances or more for each restart. Few programs do: `stream.close()`
    of node-rdkafka and `disconnect()` of @confluentinc/kafka-javascript (its KafkaJS API), but not `disconnect()`
    of node-rdkafka, or `close()` of confluent-kafka-python and confluent-kafka-go. They send the same, so kgm
    cannot tell them apart: a caveat says so where such a member is closed, and `--stop leave` states that they
    leave. Consumers of KIP-848 say that they will return in both cases.

A member of a library that kgm does not know is played as one of Java's, and the ranges cover what each of the others
does.

`--library NAME` and `--assignor NAME` of `kgm simulate-bounce`, `kgm plan`, `kgm drain`, `kgm rollout` and
`kgm remove-members` state what you know.

## What each library sends and does
"""
_AFTER = """
Subscriptions are (version, user data); in version 3 an empty rack is not the same as no rack (null). A *silent restart*
is the restart of a static leader that is told to keep the assignment, which causes no rebalance.

Another library: [teach kgm a client library](new-client-library.md).
"""


def page() -> str:
    """The text of the page."""
    return _BEFORE + "".join(_section(traits) for traits in CLIENTS.values()) + _AFTER


def _section(traits: ClientTraits) -> str:
    versions = sorted({group["version"] for group in RECORDED if group["library"] == traits.name}) or [JAVA_VERSION]
    subscriptions = dict.fromkeys(_form(form) for form in traits.subscriptions)
    rows = [
        ("versions that were recorded", ", ".join(versions)),
        ("subscription", "; ".join(subscriptions)),
        ("assignment, of a leader", "; ".join(f"version {version}, {kind}" for version, kind in traits.assignments)),
        (
            "session and rebalance timeout",
            f"{traits.session_timeout_ms // 1000} s, {traits.rebalance_timeout_ms // 1000} s",
        ),
        ("member id (KIP-848)", " or ".join(traits.member_ids) or "-"),
        ("assignors that kgm has", ", ".join(name for name in USUAL if has_assignor(traits.name, name))),
        ("a static member that is closed", _close(traits)),
        ("silent restart of a leader", ", ".join(traits.silent_leaders) or "-"),
    ]
    text = f"\n### {traits.name}\n\n| | |\n|---|---|\n"
    text += "".join(f"| {name} | {value} |\n" for name, value in rows)
    if traits.differences:
        text += "\n" + "".join(f"- {each}\n" for each in traits.differences)
    return text


def _close(traits: ClientTraits) -> str:
    if not traits.has_static_members:
        return "it has no static members"
    return "leaves" if traits.leaves_when_static else "does not leave"


def _form(form: SubscriptionForm) -> str:
    versions = f"version {form.versions[0]}"
    if len(form.versions) > 1:
        versions = f"versions {form.versions[0]} to {form.versions[-1]}"
    parts = [versions, "user data " + " or ".join(form.user_data)]
    if 3 in form.versions:
        parts.append("no rack is null" if form.no_rack is None else "no rack is empty")
    if not form.says_owned:
        parts.append("no owned partitions")
    return ", ".join(parts) + (f" ({', '.join(form.assignors)})" if form.assignors else "")
