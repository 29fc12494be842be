"""The topics that members subscribe to, by name or by a regular expression that the coordinator resolves (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile

from kgm.java import re2j
from kgm.model.client_library import LIBRDKAFKA
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.text.names import in_order
from kgm.text.wording import some

#: What separates the words in the name of a topic, and how much of several names must be the same if it is no word.
_SEPARATORS = frozenset("._-")
_TELLING = 3


def subscribed_topics(members: Iterable[MemberSnapshot], topics: Collection[TopicSnapshot]) -> set[str]:
    """The topics that members name, and those of `topics` that match their expressions, as far as kgm can tell."""
    found: set[str] = set()
    for one in members:
        found.update(one.known_topics, matching(one, (topic.name for topic in topics)) or ())
    return found


def matching(member: MemberSnapshot, topics: Iterable[str]) -> set[str] | None:
    """The topics that match the expression of a member; none if it has none. None if kgm cannot tell."""
    return re2j.matching(member.regex, topics) if member.regex else set()


def why_unmatched(members: Iterable[MemberSnapshot]) -> str | None:
    """Why it is not known what members subscribe to; None if kgm can match every expression."""
    unmatched = in_order(one.identity for one in members if matching(one, ()) is None)
    return f"kgm cannot match the regular expression of {some(unmatched)} (it needs google-re2)" if unmatched else None


def looks_for_topics(member: MemberSnapshot) -> bool:
    """Whether a member of a classic group may subscribe by an expression that its own library matches, and look for
    topics before each JoinGroup, as Java's does (ConsumerCoordinator.poll) and librdkafka does not. A classic member
    sends only the names that match."""
    library = member.client_library
    names = {*library.candidates, library.name} - {None} if library is not None else set()
    return bool(member.known_topics) and member.work is None and names != {LIBRDKAFKA}


def similar_topics(group: GroupSnapshot, existing: Iterable[str]) -> set[str]:
    """Those of the existing topics that an expression may match with which a member of a classic group subscribes, and
    to which the member does not: they begin, or end, as all of its topics do."""
    if group.type != "classic":
        return set()
    names, found = [*existing], set[str]()
    for subscribed in {frozenset(member.known_topics) for member in group.members if looks_for_topics(member)}:
        start, end = _shared_start(subscribed), _shared_start(name[::-1] for name in subscribed)[::-1]
        starts, ends = _tells(start, start[-1:]), _tells(end, end[:1])
        found |= {
            name
            for name in names
            if name not in subscribed and ((starts and name.startswith(start)) or (ends and name.endswith(end)))
        }
    return found


def _shared_start(names: Iterable[str]) -> str:
    ordered = sorted(names)
    pairs = zip(ordered[0], ordered[-1], strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _tells(part: str, edge: str) -> bool:
    """edge: the end of the part that is inside of the names."""
    return len(part) >= _TELLING or edge in _SEPARATORS


def why_similar(group: GroupSnapshot, members: Iterable[MemberSnapshot], *, has_rebalances: bool = True) -> str | None:
    """Why these members of a classic group may get topics to which none of them subscribes; None if they do not.
    has_rebalances: whether they rebalance in any case."""
    looking = in_order(member.identity for member in members if looks_for_topics(member))
    if not looking or not group.similar_topics:
        return None
    names = some(topic.name for topic in group.similar_topics)
    brings = "a rebalance brings" if has_rebalances else "there will be a rebalance, whatever is planned, that brings"
    return (
        f"{names}: named like the topics of {some(looking)}. If these come from a regular expression, which a classic "
        f"group does not show, {brings} what was created in the last minutes (metadata.max.age.ms)"
    )
