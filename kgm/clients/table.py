"""What each client library sends and does, as far as kgm tells them apart by it.

Recorded from sarama 1.61.1, franz-go 1.22.3, segmentio kafka-go 0.4.51, kafkajs 1.16.0 and 2.2.4, @platformatic/kafka
1.35.0, kafka-python 3.0.12, aiokafka 0.14.0 and librdkafka 2.0.2, 2.3.0 and 2.16.1 (their bytes:
tests/data/client_bytes.json), and from Java 4.3.0. Java from 2.4 on, librdkafka from 1.4 on and sarama write other
versions, as their sources say."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kgm.model.client_library import (
    AIOKAFKA,
    FRANZ_GO,
    JAVA,
    KAFKA_GO,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    PLATFORMATIC,
    SARAMA,
    ClientLibrary,
)
from kgm.model.errors import UsageError
from kgm.protocol.subscription import NEWEST, SHORT_VERSION

#: Kinds of user data, see `recognition.kind_of_user_data`.
NULL, EMPTY, GENERATION, NOTHING = "null", "empty", "generation", "no partitions"
STICKY, MARKED, OTHER = "partitions", "marked", "other"
#: Groups of assignors by what they write into their user data.
STATELESS: Final = ("range", "roundrobin")
STICKY_ONLY, COOPERATIVE = ("sticky",), ("cooperative-sticky",)
#: Assignors before whose rebalances every member gives up all its partitions (KIP-429 defines which others do not).
EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
#: Forms of the member ids that consumers of the consumer protocol (KIP-848) choose.
URL_SAFE, PLAIN, PADDED, UUID = "URL-safe base64", "plain base64", "padded URL-safe base64", "a UUID with hyphens"

#: What an assignment may depend on beyond subscriptions and what members own.
LEADER, BROKER, MEMBER_ID = "leader", "broker", "member id"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionForm:
    """A form in which a library writes subscriptions. assignors: with which, none for any. user_data: kinds of it.
    racks: whether a member without a rack writes an empty one ("") or null (None). says_owned: whether version 1 has
    owned partitions."""

    versions: tuple[int, ...]
    user_data: tuple[str, ...]
    assignors: tuple[str, ...] = ()
    no_rack: str | None = None
    says_owned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTraits:
    """One library.

    assignments: (version, kind of user data) in the assignments that a leader writes. protocols: names of assignors
    that only this library has, and the usual name of the same assignor. session_timeout_ms, rebalance_timeout_ms: the
    defaults. client_ids: how default client ids begin. member_ids: forms of the ids of
    KIP-848, none if it has no such consumers. silent_leaders: assignors with which a static leader that restarts, and
    is told to keep the assignment, causes no rebalance. like_java: assignors that return what Java's do, in members
    that act as Java's. has_static_members: whether it knows group instance ids (KIP-345). leaves_when_static: whether a
    static member that is closed leaves. unsubscribing_leaves: whether a static member of a classic group leaves if its
    program unsubscribes, as some do before they close it. varying: assignors that give something else from process to
    process where there are several topics. more_rounds: how many rounds more than with Java's each rebalance with an
    assignor was seen to take, at most. assigns_by: what its assignments depend on, other than Java's: LEADER (it
    assigns the topics that the leader names), BROKER (the order in which the broker lists members), MEMBER_ID (the
    member ids of static members, compared with those of dynamic ones). differences: what it does otherwise, for
    people."""

    name: str
    subscriptions: tuple[SubscriptionForm, ...]
    assignments: tuple[tuple[int, str], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_ids: tuple[str, ...]
    protocols: Mapping[str, str] = field(default_factory=dict)
    member_ids: tuple[str, ...] = ()
    silent_leaders: tuple[str, ...] = ()
    like_java: tuple[str, ...] = ()
    has_static_members: bool = True
    leaves_when_static: bool = False
    unsubscribing_leaves: bool = False
    varying: tuple[str, ...] = ()
    more_rounds: Mapping[str, int] = field(default_factory=dict)
    assigns_by: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


_TABLE: Final = (
    ClientTraits(
        name=JAVA,
        subscriptions=(
            SubscriptionForm(versions=(1, 2, 3), assignors=STATELESS, user_data=(NULL,)),
            SubscriptionForm(versions=(1, 2, 3), assignors=STICKY_ONLY, user_data=(NULL, NOTHING, STICKY)),
            SubscriptionForm(versions=(1, 2, 3), assignors=COOPERATIVE, user_data=(GENERATION,)),
            SubscriptionForm(versions=(1,), assignors=COOPERATIVE, user_data=(NULL,)),
        ),
        assignments=((1, NULL), (2, NULL), (3, NULL)),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        client_ids=("console-consumer",),
        protocols={"stream": "stream"},
        member_ids=(URL_SAFE,),
        silent_leaders=("range", "roundrobin", "sticky", "cooperative-sticky"),
    ),
    ClientTraits(
        name=LIBRDKAFKA,
        subscriptions=(
            SubscriptionForm(versions=(0, 1, 2, 3), assignors=STATELESS, user_data=(EMPTY,), no_rack=""),
            SubscriptionForm(
                versions=(0, 1, 2, 3), assignors=COOPERATIVE, user_data=(EMPTY, NOTHING, STICKY), no_rack=""
            ),
        ),
        assignments=((0, EMPTY), (0, STICKY)),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        client_ids=("rdkafka",),
        assigns_by=(BROKER, MEMBER_ID),
        # 2.6.1 and 2.8.0 take the id that the broker makes, in its form.
        member_ids=(PLAIN, URL_SAFE),
        silent_leaders=("range", "roundrobin", "cooperative-sticky"),
        # rd_kafka_cgrp_leave_maybe: only the end of the consumer spares static members (terminate).
        unsubscribing_leaves=True,
        differences=(
            "a static member of a classic group that calls unsubscribe() before close() leaves the group",
            "stream.close() of node-rdkafka and disconnect() of @confluentinc/kafka-javascript (KafkaJS API) do so",
        ),
    ),
    ClientTraits(
        name=FRANZ_GO,
        subscriptions=(
            SubscriptionForm(versions=(3,), assignors=STATELESS, user_data=(NULL,)),
            # Unless it is cooperative, it joins as if it owned nothing; 1.15 names what it had.
            SubscriptionForm(versions=(3,), assignors=STICKY_ONLY, user_data=(EMPTY, NOTHING, STICKY)),
            SubscriptionForm(versions=(3,), assignors=COOPERATIVE, user_data=(NOTHING, STICKY)),
        ),
        assignments=((0, NULL),),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        client_ids=("kgo",),
        member_ids=(PADDED,),
        silent_leaders=("range", "roundrobin"),
        like_java=STATELESS,
        differences=(
            "a static leader that restarts may compute the assignment again, and rejoin (one more rebalance)",
            "its sticky assignors take topics in an order that differs from run to run",
            "with sticky its members forget what they had, and a rebalance assigns everything again (not in 1.15)",
            "KIP-848: a closed static member frees nothing; its next process tries again until it is let in",
        ),
    ),
    ClientTraits(
        name=SARAMA,
        subscriptions=(
            # By the broker's version that it is told (Config.Version): 1 from 2.4 on, 2 from 3.2 on.
            SubscriptionForm(versions=(0, 1, 2), assignors=STATELESS, user_data=(NULL,)),
            SubscriptionForm(versions=(0, 1, 2), assignors=STICKY_ONLY, user_data=(NULL, NOTHING, STICKY)),
            SubscriptionForm(versions=(1, 2), assignors=COOPERATIVE, user_data=(NULL, GENERATION)),
        ),
        assignments=((0, NULL), (0, STICKY)),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        client_ids=("sarama",),
        assigns_by=(MEMBER_ID,),
        silent_leaders=("range",),
        differences=(
            "its roundrobin sorts the text topic-partition: orders-10 comes before orders-2",
            "its sticky assignors take partitions in an order that differs from run to run",
        ),
    ),
    ClientTraits(
        name=KAFKA_GO,
        subscriptions=(SubscriptionForm(versions=(1,), user_data=(NULL,), says_owned=False),),
        assignments=((1, NULL),),
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        client_ids=(),
        assigns_by=(MEMBER_ID,),
        has_static_members=False,
        differences=(
            "its range assignor gives member i the partitions from i*P/M to (i+1)*P/M",
            "its roundrobin assignor begins again with each topic",
            "without records it stops, and joins a rebalance, up to 10 s late: stop and return may share one",
            "a Java or kafka-python consumer that leads a group with it ends: it cannot read its subscription",
            "a librdkafka consumer that leads a group with it cannot either, and gives it nothing",
            "where it leads a group with Java, librdkafka, franz-go or sarama it cannot read theirs, and leaves",
        ),
    ),
    ClientTraits(
        name=KAFKAJS,
        subscriptions=(
            SubscriptionForm(versions=(0,), assignors=("RoundRobinAssigner",), user_data=(EMPTY,)),
            # 1.16 and 2.0 say version 1, and write what version 0 has.
            SubscriptionForm(versions=(1,), assignors=("RoundRobinAssigner",), user_data=(EMPTY,), says_owned=False),
        ),
        assignments=((0, EMPTY), (1, EMPTY)),
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        client_ids=("kafkajs",),
        assigns_by=(LEADER, MEMBER_ID),
        protocols={"RoundRobinAssigner": "roundrobin"},
        has_static_members=False,
        differences=(
            "it sends heartbeats between fetches only, up to 5 s late, and leaves as late",
            "its assignor gives the topics of the leader to all members",
        ),
    ),
    ClientTraits(
        name=PLATFORMATIC,
        subscriptions=(SubscriptionForm(versions=(1,), user_data=(NULL,), says_owned=False),),
        assignments=((0, EMPTY),),
        session_timeout_ms=60_000,
        rebalance_timeout_ms=102_000,
        client_ids=(),
        assigns_by=(LEADER, BROKER),
        member_ids=(UUID,),
        leaves_when_static=True,
        differences=(
            "static members leave when they are closed: a restart is two rebalances",
            "KIP-848: a process that is refused fails, and yet becomes a member when the session has ended",
            "a Java or kafka-python consumer that leads a group with it ends: it cannot read its subscription",
            "a librdkafka consumer that leads a group with it cannot either, and gives it nothing",
            "its roundrobin takes members in the broker's order, and gives the topics of the leader to all of them",
            "what moves after a restart is random: that order is one of hashes of ids, and a process has a new id",
        ),
    ),
    ClientTraits(
        name=KAFKA_PYTHON,
        subscriptions=(
            SubscriptionForm(versions=(0,), assignors=STATELESS, user_data=(EMPTY,)),
            # Before 3.0 its user data did not begin with a version.
            SubscriptionForm(versions=(0,), assignors=STICKY_ONLY, user_data=(EMPTY, MARKED, NOTHING, STICKY)),
            SubscriptionForm(versions=(1,), assignors=COOPERATIVE, user_data=(EMPTY,)),
        ),
        assignments=((0, EMPTY), (1, EMPTY)),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        client_ids=("kafka-python-",),
        assigns_by=(BROKER,),
        more_rounds={"range": 1, "roundrobin": 1, "sticky": 1, "cooperative-sticky": 2},
        differences=(
            "a static leader that restarts may rejoin (one more rebalance)",
            "a leader whose metadata changes assigns again: one round more, with its cooperative assignor up to two",
            "a process that leads as soon as it joins (a static leader that returns last) assigns nothing at first",
            "a new leader leaves out topics that it does not subscribe to, until its metadata has them",
            "with the sticky assignors what was left out is assigned as if nobody had had it, and much of it moves",
            "its roundrobin assignor fails where subscriptions differ, so that nothing is assigned",
            "range and roundrobin leave members out when static and dynamic ones alternate in the list",
        ),
    ),
    ClientTraits(
        name=AIOKAFKA,
        subscriptions=(
            SubscriptionForm(versions=(0,), assignors=STATELESS, user_data=(EMPTY,)),
            SubscriptionForm(versions=(0,), assignors=STICKY_ONLY, user_data=(EMPTY, NOTHING, STICKY)),
        ),
        assignments=((0, EMPTY),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        client_ids=("aiokafka-",),
        assigns_by=(MEMBER_ID,),
        silent_leaders=("range", "roundrobin"),
        varying=("sticky",),
        differences=(
            "its assignors take static members by their member ids",
            "its sticky assignor depends on the order of topics in the subscriptions",
        ),
    ),
)
#: Each library by name, the most usual first.
CLIENTS: Final = {traits.name: traits for traits in _TABLE}
LIBRARIES: Final = tuple(CLIENTS)


def assigning_by(what: str) -> frozenset[str]:
    """The libraries whose assignments depend on LEADER, BROKER or MEMBER_ID."""
    return frozenset(traits.name for traits in _TABLE if what in traits.assigns_by)


def known_library(name: str) -> str:
    """The name of a library, as an operator has typed it. Raises UsageError for one that kgm does not know."""
    if name not in CLIENTS:
        raise UsageError(f"client library {name!r} is not known", hint=f"known: {', '.join(CLIENTS)}")
    return name


def possible_libraries(client: ClientLibrary, *, is_static: bool) -> tuple[str, ...]:
    """The libraries that a member may run on; if kgm does not know its library, all that it may behave like."""
    known = tuple(name for name in client.candidates if name in CLIENTS)
    return known or tuple(name for name in LIBRARIES if not is_static or CLIENTS[name].has_static_members)


def never_says_owned(client: ClientLibrary) -> bool:
    """Whether its subscriptions end before the owned partitions, whichever of the libraries it is that it may be."""
    return _never_say_owned(client.candidates)


def leaving_when_unsubscribed(client: ClientLibrary | None, *, is_classic: bool) -> tuple[str, ...]:
    """Those of the libraries that it may be whose static members leave the group if their program unsubscribes before
    it closes them. is_classic: whether they are members by the classic protocol."""
    names = client.candidates if client is not None and is_classic else ()
    return tuple(name for name in names if name in CLIENTS and CLIENTS[name].unsubscribing_leaves)


def left_when_closed(client: ClientLibrary | None, *, is_classic: bool) -> str:
    """That a static member left on its own, in words. is_classic: as in `leaving_when_unsubscribed`."""
    unsubscribing = leaving_when_unsubscribed(client, is_classic=is_classic)
    names = " or ".join(unsubscribing)
    why = f", as static members of {names} do if their program unsubscribes first" if unsubscribing else ""
    return f"it left when it was closed{why}"


@functools.cache
def version_sent(libraries: tuple[str, ...], assignor: str) -> int:
    """The version in which these libraries write subscriptions for an assignor, as far as it matters to who reads them:
    0 if none of them writes another, `SHORT_VERSION` if they end before the owned partitions, else the newest."""
    if _never_say_owned(libraries):
        return SHORT_VERSION
    known = [form for name in libraries if name in CLIENTS for form in CLIENTS[name].subscriptions]
    forms = [form for form in known if assignor in form.assignors or not form.assignors]
    return 0 if forms and all(form.versions == (0,) for form in forms) else NEWEST


@functools.cache
def _never_say_owned(libraries: tuple[str, ...]) -> bool:
    known = [CLIENTS[name] for name in libraries if name in CLIENTS]
    return bool(known) and not any(form.says_owned for traits in known for form in traits.subscriptions)


#: Assignors by another library's name for them.
SAME_ASSIGNOR: Final = {theirs: usual for traits in _TABLE for theirs, usual in traits.protocols.items()}
#: Assignors that forms of subscriptions name.
KNOWN_ASSIGNORS: Final = frozenset(
    name for traits in _TABLE for form in traits.subscriptions for name in form.assignors
)
