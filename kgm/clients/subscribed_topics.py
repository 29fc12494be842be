"""The topics that members subscribe to, by name or by a regular expression that the coordinator resolves (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kgm.java import re2j
from kgm.model.snapshot import MemberSnapshot, TopicSnapshot
from kgm.text.names import in_order
from kgm.text.wording import some


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
