"""What a cluster did not report about topics and offsets, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from kgm.client import AdminClient
from kgm.client.offset_reader import HiddenOffsets
from kgm.model.errors import KgmError
from kgm.text.wording import some


class UnreadKind(Enum):
    """The kind of thing that could not be read."""

    GROUP = "group"
    TOPIC = "topic"
    COMMITTED = "committed offsets"
    OTHER_COMMITTED = "committed offsets of other topics"
    END = "end"
    RECORDS = "records"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Something that could not be read. text: what, and why. consequence: what is unknown as a result."""

    kind: UnreadKind
    text: str
    consequence: str

    @property
    def warning(self) -> str:
        return f"{self.text}: {self.consequence}"


def unread(cluster: AdminClient) -> Iterator[Unread]:
    """Topics that were not described, groups whose committed offsets or records were not read, and partitions whose
    ends were not read."""
    offsets, all_of_it = cluster.offsets, "its partition count, offsets and lag are unknown"
    if offsets.denied_topics:
        names = ", ".join(map(repr, sorted(offsets.denied_topics)))
        yield Unread(kind=UnreadKind.TOPIC, text=f"no DESCRIBE on Topic {names}", consequence=all_of_it)
    for why, names in by_reason(offsets.unread_topics):
        text = f"topic {names} could not be described ({why})"
        yield Unread(kind=UnreadKind.TOPIC, text=text, consequence=all_of_it)
    for why, names in by_reason(offsets.unread_groups):
        text = f"the committed offsets of group {names} could not be read ({why})"
        yield Unread(kind=UnreadKind.COMMITTED, text=text, consequence="offsets and lag are unknown")
    yield from _hidden(offsets.incomplete_groups)
    for why, names in by_reason({f"{topic}[{number}]": one for (topic, number), one in offsets.unread_ends.items()}):
        text = f"the end of {names} could not be read ({why})"
        yield Unread(kind=UnreadKind.END, text=text, consequence="its lag is unknown")
    for why, names in by_reason(cluster.unread_records):
        text = f"the records of group {names} in __consumer_offsets could not be read ({why})"
        yield Unread(kind=UnreadKind.RECORDS, text=text, consequence="generation, leader and timeouts are unknown")
    for why, names in by_reason({f"{topic}[{number}]": one for (topic, number), one in offsets.unread_times.items()}):
        text = f"the first record of {names} that is not committed could not be read ({why})"
        yield Unread(kind=UnreadKind.TIME, text=text, consequence="its lag in time is unknown")
    for why, names in by_reason(offsets.unread_commit_times):
        text = f"the commits of group {names} could not be read ({why})"
        yield Unread(kind=UnreadKind.TIME, text=text, consequence="their age is unknown")


def _hidden(groups: Mapping[str, HiddenOffsets]) -> Iterator[Unread]:
    """Committed offsets that brokers have left out, or may have left out."""
    what = "topics on which this login has no DESCRIBE"
    told = {name: one for name, one in groups.items() if one.topics}
    if told:
        topics = some(sorted({topic for one in told.values() for topic in one.topics}))
        text = f"group {some(map(repr, sorted(told)))} has committed offsets of {what}: {topics}"
        yield Unread(kind=UnreadKind.COMMITTED, text=text, consequence="lag is unknown")
    partial = "lag is of the topics that it may describe; DESCRIBE on Topic '*' shows all of it"
    for names_topics, kind, consequence in (
        (False, UnreadKind.COMMITTED, "lag is unknown"),
        (True, UnreadKind.OTHER_COMMITTED, partial),
    ):
        names = sorted(name for name, one in groups.items() if not one.topics and one.names_topics is names_topics)
        if names:
            text = f"group {some(map(repr, names))} may have offsets of {what}, which brokers leave out"
            yield Unread(kind=kind, text=text, consequence=consequence)


def undescribed(errors: Mapping[str, KgmError], consequence: str) -> Iterator[Unread]:
    """Groups that could not be described, as notes. errors: by group id; consequence: what is unknown as a result."""
    for why, names in by_reason(errors):
        text = f"group {names} could not be described ({why})"
        yield Unread(kind=UnreadKind.GROUP, text=text, consequence=consequence)


def by_reason(errors: Mapping[str, KgmError]) -> Iterator[tuple[str, str]]:
    """(reason, names) of what could not be read, one per reason."""
    names: dict[str, list[str]] = {}
    for name, error in sorted(errors.items()):
        names.setdefault(error.reason, []).append(name)
    for why, those in names.items():
        yield why, some(map(repr, those))
