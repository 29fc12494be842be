"""`kgm diff`: what changed in groups between two snapshots, files or live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.common import Common, cluster
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.model.errors import ConditionNotMet, KgmError, NotFoundError, UsageError

if TYPE_CHECKING:
    from kgm.model.assignment import Move
    from kgm.model.changes import Changed, Changes
    from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

SCHEMA = "kgm.diff/v1"
LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One group on both sides; None where a side does not have it."""

    group_id: str
    before: GroupSnapshot | None
    after: GroupSnapshot | None
    changes: Changes | None

    @property
    def same(self) -> bool:
        return self.changes is not None and not self.changes.any


@cluster
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="Before: FILE, - for stdin, live, or live:GROUP.")],
    b: Annotated[str, typer.Argument(metavar="B", help="After: the same.")],
    *,
    group: Annotated[
        list[str] | None, typer.Option("-g", "--group", metavar="GROUP", help="Only this group; repeatable.")
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 8 if there is a difference.")] = False,
    common: Common,
) -> None:
    """Show what changed between two snapshots: members come, gone and replaced, partitions moved, settings, epochs.

    A snapshot is what `kgm describe -o json` printed, or `live`: the cluster as it is now. `live` takes the groups
    that the other side has, `live:GROUP` names one. Members are compared by identity: a static member that came back
    under a new member id is replaced, and its partitions have not moved. Offsets and lag always change, and are not
    compared."""
    if a == "-" and b == "-":
        raise UsageError("only one of the two can be read from stdin")
    wanted = list(dict.fromkeys(group or ()))
    before, after, where, errors = _both(a, b, wanted, common)
    pairs = _pairs(before, after, wanted)
    missing = [
        NotFoundError(f"neither side has group {name}", group_id=name)
        for name in wanted
        if name not in {pair.group_id for pair in pairs} and name not in {error.group_id for error in errors}
    ]
    errors = [*errors, *missing]
    _emit(pairs, (a, b), where, errors, common)
    from kgm.cli.output.failures import finish, tell

    finish(errors, done=len(pairs))
    if exit_code and not all(pair.same for pair in pairs):
        names = ", ".join(pair.group_id for pair in pairs if not pair.same)
        tell(ConditionNotMet(f"there are differences in: {names}"))
        raise typer.Exit(ConditionNotMet.exit_code)


def _both(
    a: str, b: str, wanted: Sequence[str], common: Common
) -> tuple[list[GroupSnapshot], list[GroupSnapshot], dict[str, str | None] | None, list[KgmError]]:
    """The groups of both sides, the cluster if one was asked, and what it did not answer.

    A group that the cluster does not have is a difference, and no error, unless nobody else has it."""
    from kgm.cli.options.snapshots import read_snapshots

    sides: list[list[GroupSnapshot] | None] = [None if _is_live(one) else read_snapshots(one) for one in (a, b)]
    if None not in sides:
        return sides[0] or [], sides[1] or [], None, []
    written = [snapshot.group_id for side in sides for snapshot in side or ()]
    asked = [_live_groups(one, wanted, written) for one in (a, b)]
    if any(_is_live(one) and not ids for one, ids in zip((a, b), asked, strict=True)):
        raise UsageError("which group is meant by live?", hint="kgm diff SNAPSHOT live:GROUP")
    from kgm.cli.output.failures import warn_of_unseen_topics

    errors: list[KgmError] = []
    with common.cluster(reads_only=True) as connected:
        for i in range(2):
            if sides[i] is not None:
                continue
            answers = connected.describe_groups(asked[i])
            sides[i] = [one for one in answers if not isinstance(one, KgmError)]
            failed = [one for one in answers if isinstance(one, KgmError)]
            errors += [one for one in failed if not isinstance(one, NotFoundError) or one.group_id not in written]
        warn_of_unseen_topics(connected)
        return sides[0] or [], sides[1] or [], cluster_json(connected), errors


def _is_live(text: str) -> bool:
    return text == LIVE or text.startswith(f"{LIVE}:")


def _live_groups(text: str, wanted: Sequence[str], written: Sequence[str]) -> list[str]:
    _, colon, name = text.partition(":")
    if not _is_live(text):
        return []
    if colon and not name:
        raise UsageError(f"{text}: no group is named", hint="kgm diff SNAPSHOT live:GROUP")
    return [name] if name else list(dict.fromkeys(wanted or written))


def _pairs(before: Sequence[GroupSnapshot], after: Sequence[GroupSnapshot], wanted: Sequence[str]) -> list[_Pair]:
    """By group id; one group on each side is compared whatever it is called (a copy, or a group that was renamed)."""
    if not wanted and len(before) == len(after) == 1:
        return [_pair(after[0].group_id, before[0], after[0])]
    old = {snapshot.group_id: snapshot for snapshot in before}
    new = {snapshot.group_id: snapshot for snapshot in after}
    names = [name for name in sorted(old.keys() | new.keys()) if not wanted or name in wanted]
    return [_pair(name, old.get(name), new.get(name)) for name in names]


def _pair(group_id: str, before: GroupSnapshot | None, after: GroupSnapshot | None) -> _Pair:
    from kgm.model.changes import changes

    found = None if before is None or after is None else changes(before, after)
    return _Pair(group_id=group_id, before=before, after=after, changes=found)


# -- what is said


def _emit(
    pairs: Sequence[_Pair], names: tuple[str, str], where: dict[str, str | None] | None, errors: Sequence[KgmError],
    common: Common,
) -> None:  # fmt: skip
    columns = [Column(title="GROUP", data=True), Column(title="CHANGE"), Column(title="WHAT"), Column(title="DETAIL")]
    tables = [
        Table(
            columns=columns if common.is_data or not pair.same else [],
            rows=[[pair.group_id, *row] for row in _rows(pair)],
            heading=f"{pair.group_id}  {_summary(pair)}",
        )
        for pair in pairs
    ]
    groups = [_json(pair) for pair in pairs]
    emit(
        Report(
            schema=SCHEMA,
            data={"a": names[0], "b": names[1], "groups": groups},
            tables=tables,
            names=[pair.group_id for pair in pairs if not pair.same],
            items=groups,
            cluster=where,
            errors=errors,
        ),
        common,
    )


def _summary(pair: _Pair) -> str:
    from kgm.text.wording import many

    found = pair.changes
    if found is None:
        return "only in A" if pair.after is None else "only in B"
    if not found.any:
        return "no difference"
    counts = [(found.joined, "come"), (found.left, "gone"), (found.replaced, "replaced")]
    parts = [f"{len(members)} {what}" for members, what in counts if members]
    parts += [f"{many(len(found.moves), 'partition')} moved" if found.moves is not None else "moves unknown"]
    return ", ".join(parts)


def _rows(pair: _Pair) -> list[list[Cell]]:
    found = pair.changes
    if found is None:
        only = pair.before or pair.after
        assert only is not None
        what = "gone" if pair.after is None else "come"
        from kgm.text.wording import many

        return [[what, f"group {pair.group_id}", f"{only.type}, {only.state}, {many(len(only.members), 'member')}"]]
    rows: list[list[Cell]] = [["come", member.identity, _of(member)] for member in found.joined]
    rows += [["gone", member.identity, _of(member)] for member in found.left]
    rows += [["replaced", one.identity, f"{one.member_id_before} -> {one.member_id_after}"] for one in found.replaced]
    rows += [["status", one.name, _arrow(one)] for one in found.statuses if "away" in (one.before, one.after)]
    for one in found.resubscribed:
        topics = _topics(one.topics_before, one.regex_before), _topics(one.topics_after, one.regex_after)
        rows.append(["subscription", one.identity, " -> ".join(topics)])
    rows += [["moved", what, who] for what, who in handovers(found.moves or ())]
    values = [*found.values, *([found.coordinator] if found.coordinator is not None else [])]
    rows += [["changed", value.name, _arrow(value)] for value in values]
    rows += [["topic", topic.name, f"{_arrow(topic)} partitions"] for topic in found.topics]
    if found.moves is None:
        rows.append(["unknown", "moves", "a side was taken during a rebalance, when nobody tells who owns what"])
    return rows


def handovers(moves: Iterable[Move]) -> list[tuple[str, str]]:
    """(`orders[0-2]`, `a -> b`) for what goes from one owner to another, all of them."""
    from kgm.model.assignment import as_ranges

    found: dict[tuple[str, str, str], list[int]] = {}
    for move in moves:
        key = (move.topic, move.owner_before or "nobody", move.owner_after or "nobody")
        found.setdefault(key, []).append(move.partition)
    return [(f"{topic}[{as_ranges(found[topic, a, b])}]", f"{a} -> {b}") for topic, a, b in sorted(found)]


def _of(member: MemberSnapshot) -> str:
    from kgm.text.wording import partitions_text

    kind = "dynamic" if member.group_instance_id is None else f"member {member.member_id}"
    return f"{kind}, {partitions_text(member.assignment) or 'owns nothing'}"


def _topics(topics: Sequence[str], regex: str | None) -> str:
    return ",".join([*topics, *([f"/{regex}/"] if regex else [])]) or "nothing"


def _arrow(one: Changed) -> str:
    return f"{'-' if one.before is None else one.before} -> {'-' if one.after is None else one.after}"


def _json(pair: _Pair) -> dict[str, Any]:
    """One of `data.groups`. moves and moved_partitions are null where a side does not tell who owns what."""
    from kgm.model.changes import Changes

    found = pair.changes or Changes()
    ids = [None if side is None else side.group_id for side in (pair.before, pair.after)]
    values = {one.name: {"before": one.before, "after": one.after} for one in found.values}
    if found.coordinator is not None:
        values["coordinator"] = {"before": found.coordinator.before, "after": found.coordinator.after}
    known = pair.changes is not None and found.moves is not None
    return {
        "group_id": pair.group_id,
        "group_id_before": ids[0],
        "group_id_after": ids[1],
        "same": pair.same,
        "members_come": [member.to_json() for member in found.joined],
        "members_gone": [member.to_json() for member in found.left],
        "members_replaced": [
            {"group_instance_id": one.identity, "member_id_before": one.member_id_before,
             "member_id_after": one.member_id_after}
            for one in found.replaced
        ],
        "subscriptions_changed": [
            {"identity": one.identity, "before": {"topics": list(one.topics_before), "regex": one.regex_before},
             "after": {"topics": list(one.topics_after), "regex": one.regex_after}}
            for one in found.resubscribed
        ],
        "statuses_changed": [
            {"identity": one.name, "before": one.before, "after": one.after} for one in found.statuses
        ],
        "moves": moves_json(found.moves or ()) if known else None,
        "moved_partitions": len(found.moves or ()) if known else None,
        "values_changed": values,
        "topics_changed": [{"name": one.name, "before": one.before, "after": one.after} for one in found.topics],
    }  # fmt: skip


def moves_json(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """Moves as `simulate-bounce` writes them."""
    return [
        {"topic": move.topic, "partition": move.partition, "from": move.owner_before, "to": move.owner_after}
        for move in moves
    ]
