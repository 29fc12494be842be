"""From what a member has sent to the library that it runs on, with the evidence.

What a member's own bytes show comes first. Where several libraries write the same bytes, three things that prove less
may leave one of them: what the leader of the group has written into the assignments, default timeouts, and a default
client id. If these contradict each other, all libraries that the bytes allow remain."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kgm.clients.table import (
    CLIENTS,
    EMPTY,
    GENERATION,
    KNOWN_ASSIGNORS,
    LIBRARIES,
    MARKED,
    NOTHING,
    NULL,
    OTHER,
    PADDED,
    PLAIN,
    SAME_ASSIGNOR,
    STICKY,
    URL_SAFE,
    UUID,
    ClientTraits,
    SubscriptionForm,
)
from kgm.model.client_library import CERTAIN, JAVA, KAFKA_GO, LIKELY, PLAYED, ClientLibrary
from kgm.protocol.subscription import (
    PROTOCOL_TYPE,
    MemberAssignment,
    Subscription,
    readable_assignment,
    readable_subscription,
)

T = TypeVar("T")

CLASSIC: Final = "classic"
_MARK: Final = b"\0\1"
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{22}(==)?")
#: (version, variant) of a random UUID.
_RANDOM_UUID = (4, 2)
_RACK_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvidence:
    """What is known of a member. protocol: `classic` or `consumer`. assignment: as the leader has written it.
    subscription, assignment: None if they are not known, or cannot be read. session_timeout_ms, rebalance_timeout_ms:
    only the group's records have them; None if they are not known. partly: the libraries that fit what is known of a
    subscription that is not known as it was written. is_static: whether it has a group instance id (KIP-345)."""

    member_id: str
    client_id: str = ""
    protocol: str = CLASSIC
    subscription: Subscription | None = None
    assignment: MemberAssignment | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    partly: tuple[str, ...] = LIBRARIES
    is_static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedGroup:
    """members: as they were given. leader: of the leader that has written the assignments; None where they are not
    known."""

    members: tuple[ClientLibrary, ...]
    leader: ClientLibrary | None


def recognise(group_id: str, assignor: str | None, members: Sequence[MemberEvidence]) -> RecognisedGroup:
    """The libraries of a group. assignor: None if it is not known."""
    by_bytes, is_known = _FittingLibraries(assignor), _is_known(assignor)
    like_java = frozenset(name for name, traits in CLIENTS.items() if assignor in traits.like_java) | {JAVA}
    fits = [by_bytes.of(member) for member in members]
    written = _written(members)
    leads = _leads(written)
    alike = len({fit[0] for fit in fits}) == 1
    possible_leaders = [bool(leads) and not leads.isdisjoint(names) for names, _ in fits]
    verdicts: dict[tuple[object, ...], ClientLibrary] = {}
    found = []
    for member, (names, sentence), may_lead in zip(members, fits, possible_leaders, strict=True):
        hint = _by_client_id(group_id, member)
        # If all members send the same, any may have been the leader. Another one may still run on another of these
        # libraries, and lead next: a member counts as one of the libraries that predictions can be exact for only if
        # the others would do the same.
        is_safe = PLAYED.isdisjoint(leads.intersection(names)) or like_java.issuperset(names)
        is_told = may_lead and (sum(possible_leaders) == 1 or (alike and is_safe))
        timeouts = member.session_timeout_ms, member.rebalance_timeout_ms
        key = (names, sentence, hint, timeouts, is_told)
        if key not in verdicts:
            hints = [(hint, f"its client id is a default of {hint}")] if hint is not None else []
            verdicts[key] = _verdict(
                names,
                sentence,
                by_id=hints,
                by_timeouts=_by_timeouts(*timeouts),
                leads=leads if is_told else None,
                is_known=is_known,
            )
        found.append(verdicts[key])
    return RecognisedGroup(members=tuple(found), leader=_leader(written, leads, found, is_known=is_known))


def _is_known(assignor: str | None) -> bool:
    """Whether a library that kgm knows has it: members of a group with another one may be of any library."""
    return assignor is None or assignor in KNOWN_ASSIGNORS or assignor in SAME_ASSIGNOR


def recognise_by_ids(
    group_id: str, client_id: str, member_id: str, protocol: str | None, *, is_static: bool = False
) -> ClientLibrary:
    """Of a member of which nothing but its ids is known."""
    member = MemberEvidence(member_id=member_id, client_id=client_id, protocol=protocol or CLASSIC, is_static=is_static)
    return recognise(group_id, None, [member]).members[0]


def recognise_record(group_id: str, value: Any) -> RecognisedGroup | None:
    """The libraries of a group by the record of its last rebalance (Kafka: GroupMetadataValue), which has the timeouts
    too. None for a group that is no consumer group."""
    if value.protocol_type != PROTOCOL_TYPE:
        return None
    return recognise(group_id, value.protocol or None, [recorded_evidence(member) for member in value.members])


def recorded_evidence(member: Any) -> MemberEvidence:
    """Of a member of a consumer group, by the group's record (Kafka: MemberMetadata in GroupMetadataValue)."""
    return MemberEvidence(
        member_id=member.member_id,
        client_id=member.client_id,
        subscription=readable_subscription(member.subscription or b""),
        assignment=readable_assignment(member.assignment or b""),
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=member.rebalance_timeout,
        is_static=member.group_instance_id is not None,
    )


def partly_known(rack_id: str | None, generation: int | None) -> tuple[str, ...]:
    """The libraries that send this rack and generation (-1 or None for none)."""
    if rack_id == "":
        return tuple(name for name in LIBRARIES if any(form.no_rack == "" for form in CLIENTS[name].subscriptions))
    # Version 2 brought the generation, and version 3 the rack.
    newest = 3 if rack_id else 2 if generation is not None and generation >= 0 else 0
    return tuple(
        name
        for name in LIBRARIES
        if any(
            max(form.versions) >= newest and (rack_id or form.no_rack is None) for form in CLIENTS[name].subscriptions
        )
        or not newest
    )


def kind_of_user_data(data: bytes | None) -> str:
    """The kind of user data: none, no bytes, a generation (Java's cooperative assignor), owned partitions (the sticky
    assignors) or a count of 0 of them, kafka-python's version before them, or something else."""
    if data is None:
        return NULL
    if not data:
        return EMPTY
    if len(data) in (4, 8) and data.startswith(bytes(4)):
        return NOTHING  # a generation may follow, and none is 0
    if len(data) == 4:
        return GENERATION
    if len(data) < 8:
        return OTHER
    # Owned partitions begin with a count of topics: with fewer than 65,536 of them the first two bytes are 0.
    return MARKED if data.startswith(_MARK) else STICKY if data.startswith(b"\0\0") else OTHER


class _FittingLibraries:
    """Which libraries write what a member has sent: subscriptions are the same over and over."""

    def __init__(self, assignor: str | None) -> None:
        self._assignor = assignor
        self._known: dict[tuple[object, ...], tuple[tuple[str, ...], str]] = {}

    def of(self, member: MemberEvidence) -> tuple[tuple[str, ...], str]:
        """(libraries, a sentence of evidence)."""
        names, sentence = self._by_bytes(member)
        others = [name for name in names if member.is_static and not CLIENTS[name].has_static_members]
        if not others:
            return names, sentence
        static = tuple(name for name in names if name not in others)
        return static, f"{sentence}; it is static, which members of {_listed(others)} cannot be"

    def _by_bytes(self, member: MemberEvidence) -> tuple[tuple[str, ...], str]:
        if member.protocol != CLASSIC:
            forms = _forms_of_id(member.member_id)
            return self._cached(forms, lambda: _by_member_id(forms))
        one = member.subscription
        if one is None:
            what = (
                "not known" if member.partly == LIBRARIES else f"known in parts, as {_listed(member.partly)} sends it"
            )
            return member.partly, f"its subscription is {what}"
        kind = kind_of_user_data(one.user_data)
        rack = one.rack_id and "named"
        key = (one.version, kind, rack, one.says_owned)
        return self._cached(key, lambda: self._by_subscription(one, kind))

    def _cached(
        self, key: tuple[object, ...], find: Callable[[], tuple[tuple[str, ...], str]]
    ) -> tuple[tuple[str, ...], str]:
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

    def _by_subscription(self, one: Subscription, kind: str) -> tuple[tuple[str, ...], str]:
        names = tuple(
            name
            for name, traits in CLIENTS.items()
            if self._has_assignor(traits) and any(self._fits(form, one, kind) for form in traits.subscriptions)
        )
        parts = [f"version {one.version}", f"user data: {kind}"]
        if one.version >= _RACK_VERSION:
            parts.append("rack: null" if one.rack_id is None else "rack: empty" if not one.rack_id else "a rack")
        if not one.says_owned:
            parts.append("no owned partitions")
        if self._assignor is not None and self._assignor not in ("range", "roundrobin"):
            parts.append(f"assignor {self._assignor}")
        return names, f"its subscription ({', '.join(parts)}) is what {_listed(names)} sends"

    def _has_assignor(self, traits: ClientTraits) -> bool:
        """Whether no other library alone has the assignor of the group."""
        owners = [name for name, other in CLIENTS.items() if self._assignor in other.protocols]
        return not owners or traits.name in owners

    def _fits(self, form: SubscriptionForm, one: Subscription, kind: str) -> bool:
        # What an assignor that kgm does not know writes into its user data says nothing.
        is_known = self._assignor in KNOWN_ASSIGNORS
        if is_known and form.assignors and self._assignor not in form.assignors:
            return False
        if is_known and kind not in form.user_data:
            return False
        has_rack = one.version >= _RACK_VERSION and not one.rack_id
        rack_fits = not has_rack or one.rack_id == form.no_rack
        return one.version in form.versions and one.says_owned == form.says_owned and rack_fits


def _by_member_id(forms: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    names = tuple(name for name, traits in CLIENTS.items() if not {*forms}.isdisjoint(traits.member_ids))
    what = " or ".join(forms) or "of a form that kgm does not know"
    return names, f"its member id is {what}, as {_listed(names)} makes it"


def _forms_of_id(member_id: str) -> tuple[str, ...]:
    """The forms that a member id of the consumer protocol may have: 16 bytes in base64, which without padding are a
    random UUID (RFC 9562: version 4); or a UUID in hexadecimal digits."""
    if _UUID.fullmatch(member_id):
        return (UUID,)
    match = _BASE64.fullmatch(member_id)
    if match is None:
        return ()
    is_plain, is_url_safe = {"+", "/"} & {*member_id}, {"-", "_"} & {*member_id}
    if match[1]:
        return () if is_plain else (PADDED,)
    data = base64.b64decode(member_id + "==", altchars=b"-_" if is_url_safe else None)
    if (is_plain and is_url_safe) or (data[6] >> 4, data[8] >> 6) != _RANDOM_UUID:
        return ()
    return (PLAIN,) if is_plain else (URL_SAFE,) if is_url_safe else (URL_SAFE, PLAIN)


def _written(members: Iterable[MemberEvidence]) -> tuple[int, str] | None:
    """The form of the assignments: those of one round come from one leader. None if they are not known, or differ."""
    forms = {
        (member.assignment.version, kind_of_user_data(member.assignment.user_data))
        for member in members
        if member.protocol == CLASSIC and member.assignment is not None and member.assignment.partitions
    }
    # To a member that had none, librdkafka says so.
    forms = {(version, STICKY if kind == NOTHING else kind) for version, kind in forms}
    return forms.pop() if len(forms) == 1 else None


def _leads(written: tuple[int, str] | None) -> frozenset[str]:
    return frozenset(name for name, traits in CLIENTS.items() if written in traits.assignments)


def _leader(
    written: tuple[int, str] | None, leads: frozenset[str], members: Sequence[ClientLibrary], *, is_known: bool
) -> ClientLibrary | None:
    """The library that has written the assignments; as far as it can be told, one of the members' libraries. is_known:
    whether the assignor is (`_is_known`)."""
    if written is None:
        return None
    among = {name for member in members for name in ((member.name,) if member.name else member.candidates)}
    candidates = tuple(name for name in LIBRARIES if name in leads and name in among)
    kept = candidates or tuple(name for name in LIBRARIES if name in leads)
    evidence = [f"the assignments (version {written[0]}, user data: {written[1]}) are what {_listed(kept)} writes"]
    if candidates and len(candidates) < len(leads):
        evidence.append("members of other libraries that write the same are not in the group")
    confidence = CERTAIN if is_known and candidates and len(leads) == 1 else LIKELY
    if len(kept) != 1:
        return ClientLibrary(evidence=tuple(evidence), candidates=kept)
    return ClientLibrary(name=kept[0], confidence=confidence, evidence=tuple(evidence), candidates=kept)


def _verdict(
    names: tuple[str, ...], sentence: str, *, by_id: Sequence[tuple[str, str]],
    by_timeouts: Sequence[tuple[str, str]], leads: Collection[str] | None, is_known: bool,
) -> ClientLibrary:  # fmt: skip
    if is_known and len(names) == 1:
        return ClientLibrary(name=names[0], confidence=CERTAIN, evidence=(sentence,), candidates=names)
    evidence = [sentence, *(text for name, text in (*by_id, *by_timeouts) if name in names)]
    by_others = _left(names, by_timeouts)
    if leads is not None:
        fitting = {name for name in names if name in leads}
        by_others &= fitting
        evidence.append(f"the leader has written assignments as {_listed(sorted(fitting))} does")
    left = by_others & _left(names, by_id)
    if len(left) == 1:
        (name,) = left
        # Anyone may choose a client id: it must not be the reason why a prediction is exact.
        possible = by_others if name in PLAYED else left
        candidates = tuple(one for one in names if one in possible)
        return ClientLibrary(name=name, confidence=LIKELY, evidence=tuple(evidence), candidates=candidates)
    return ClientLibrary(evidence=tuple(evidence), candidates=tuple(name for name in names if name in (left or names)))


def _left(names: Sequence[str], hints: Iterable[tuple[str, str]]) -> set[str]:
    """The libraries that these hints leave; all if none of them fits."""
    return {name for name, _ in hints if name in names} or {*names}


def _by_client_id(group_id: str, member: MemberEvidence) -> str | None:
    """The library of which the client id is a default."""
    client_id = member.client_id
    for name, traits in CLIENTS.items():
        for default in traits.client_ids:
            if client_id == default or (default.endswith("-") and client_id.startswith(default)):
                return name
    # Java's default client.id is consumer-GROUP-N, and Streams' APP-UUID-StreamThread-N-consumer; kafka-go's is
    # PROGRAM@HOST and its address.
    is_default = client_id.startswith(f"consumer-{group_id}-") and client_id.rpartition("-")[2].isdigit()
    if is_default or ("-StreamThread-" in client_id and client_id.endswith("-consumer")):
        return JAVA
    return KAFKA_GO if client_id.endswith("(github.com/segmentio/kafka-go)") else None


def _by_timeouts(session_ms: int | None, rebalance_ms: int | None) -> list[tuple[str, str]]:
    """The libraries that have these timeouts by default."""
    return [
        (name, f"session and rebalance timeout are the defaults of {name}")
        for name, traits in CLIENTS.items()
        if (traits.session_timeout_ms, traits.rebalance_timeout_ms) == (session_ms, rebalance_ms)
    ]


def _listed(names: Sequence[str]) -> str:
    return " or ".join(names) or "no library that kgm knows"
