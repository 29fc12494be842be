"""The topics that members subscribe to, by name or by a regular expression that the coordinator resolves (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable

from kgm.java import re2j
from kgm.model.snapshot import MemberSnapshot, TopicSnapshot


def subscribed_topics(members: Iterable[MemberSnapshot], topics: Iterable[TopicSnapshot]) -> set[str]:
    """The topics that members name, and those of `topics` that match their expressions, as far as kgm can tell."""
    names = [topic.name for topic in topics]
    return {topic for one in members for topic in (*one.known_topics, *(matching(one, names) or ()))}


def matching(member: MemberSnapshot, topics: Iterable[str]) -> set[str] | None:
    """The topics that match the expression of a member; none if it has none. None if kgm cannot tell."""
    return re2j.matching(member.regex, topics) if member.regex else set()
