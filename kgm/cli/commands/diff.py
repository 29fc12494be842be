"""`kgm diff`: what changed in groups between two snapshots, files or live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.group_names import OnlyGroupsOption
from kgm.cli.options.run_options import RunOptions
from kgm.cli.options.shared_options import cluster_options
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.model.errors import ConditionNotMet, UsageError
from kgm.text.names import check_name

if TYPE_CHECKING:
    from kgm.cli.options.snapshots import SnapshotFile
    from kgm.model.changes import Changed, Changes
    from kgm.model.snapshot import MemberSnapshot
    from kgm.operations.diff.comparison import GroupComparison, LiveGroups, Side, SnapshotComparison

SCHEMA = "kgm.diff/v1"
LIVE = "live"
_TWO_CLUSTERS = (
    "check --bootstrap-server and --profile; two clusters can be compared by two files from `kgm describe -o json`"
)
#: The columns of csv and tsv: a row is an entry of one of JSON's lists, which `change` names as tables do.
_KEYS = ("group_id", "change", "identity", "name", "topic", "partition", "before", "after", "assignment")


@cluster_options
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="Before: FILE, - for stdin, live, or live:GROUP.")],
    b: Annotated[str, typer.Argument(metavar="B", help="After: as for A.")],
    *,
    group: OnlyGroupsOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 8 if there is a difference.")] = False,
    options: RunOptions,
) -> None:
    """Show what changed between two snapshots: members that joined, left or were replaced, moves, settings, epochs.

    A snapshot is the output of `kgm describe -o json`, or `live`: the cluster as it is now. `live` describes the groups
    of the other side, `live:GROUP` one group. Members are compared by identity: a static member that came back with a
    new member id counts as replaced, and its partitions have not moved. Offsets and lag change all the time and are not
    compared. A snapshot of another cluster is not compared with `live` (exit 6); two files of different clusters are,
    with a warning."""
    from kgm.cli.options.snapshots import SnapshotFile
    from kgm.cli.output.failures import exit_with, print_error, warn_of_unknown_offsets
    from kgm.operations.diff import comparison

    if a == "-" and b == "-":
        raise UsageError("only one of the two can be read from stdin")
    only = list(dict.fromkeys(group or ()))
    sources = _source(a), _source(b)
    files = [one for one in sources if isinstance(one, SnapshotFile)]
    before, after = map(_side, sources)
    comparison.live_group_ids(before, after, only)
    where = None
    if isinstance(before, comparison.LiveGroups) or isinstance(after, comparison.LiveGroups):
        with options.cluster(reads_only=True) as connected:
            for file in files:
                file.refuse_at(connected.cluster_id, _TWO_CLUSTERS)
            compared = comparison.compare_with_cluster(before, after, only, connected)
            warn_of_unknown_offsets(connected, shows_lag=True)
            where = cluster_json(connected)
    else:
        _warn_of_two_clusters(files)
        compared = comparison.compare_snapshots(before, after, only)
    _emit(compared, (a, b), where, options)
    exit_with(compared.errors, done=len(compared.groups))
    if exit_code and compared.different:
        names = ", ".join(one.group_id for one in compared.different)
        print_error(ConditionNotMet(f"there are differences in: {names}"))
        raise typer.Exit(ConditionNotMet.exit_code)


def _side(source: SnapshotFile | LiveGroups) -> Side:
    from kgm.cli.options.snapshots import SnapshotFile

    return source.snapshots if isinstance(source, SnapshotFile) else source


def _warn_of_two_clusters(files: Sequence[SnapshotFile]) -> None:
    """Two clusters may be compared on purpose, as after a migration, but no group was deleted or created then."""
    from kgm.cli.output.failures import print_warning

    before, after = (one.cluster_id for one in files)
    if None not in (before, after) and before != after:
        print_warning(
            f"A is about cluster {before}, and B about cluster {after}: groups of the same name are different groups, "
            "and one that is only in A or only in B was not deleted or created"
        )


def _source(text: str) -> SnapshotFile | LiveGroups:
    from kgm.cli.options.snapshots import read_snapshot_file
    from kgm.operations.diff.comparison import LiveGroups

    if text == LIVE:
        return LiveGroups()
    kind, colon, name = text.partition(":")
    if kind != LIVE or not colon:
        return read_snapshot_file(text)
    if not name:
        raise UsageError(f"{text}: no group is named", hint="kgm diff SNAPSHOT live:GROUP")
    check_name(name, "the name of a group")
    return LiveGroups(group_id=name)


# -- tables


def _emit(
    compared: SnapshotComparison, names: tuple[str, str], where: dict[str, str | None] | None, options: RunOptions
) -> None:
    from kgm.cli.output.contracts.diff import comparison_json

    columns = [Column(title=title) for title in ("CHANGE", "WHAT", "DETAIL")]
    tables = [
        Table(
            columns=[] if group.is_same else columns,
            rows=_rows(group),
            heading=f"{group.group_id}  {_summary(group)}",
        )
        for group in compared.groups
    ]
    items = [comparison_json(group) for group in compared.groups]
    emit(
        Report(
            schema=SCHEMA,
            data={"a": names[0], "b": names[1], "groups": items},
            tables=tables,
            keys=_KEYS,
            rows=(row for group in compared.groups for row in _records(group)),
            names=[group.group_id for group in compared.different],
            items=items,
            cluster=where,
            errors=compared.errors,
        ),
        options,
    )


def _summary(group: GroupComparison) -> str:
    from kgm.text.wording import many

    changed = group.changes
    if changed is None:
        return "only in A" if group.after is None else "only in B"
    if not changed.any:
        return "no difference"
    counts = [(changed.joined, "joined"), (changed.left, "left"), (changed.replaced, "replaced")]
    parts = [f"{len(members)} {what}" for members, what in counts if members]
    parts += [f"{many(len(changed.moves), 'partition')} moved" if changed.moves is not None else "moves unknown"]
    return ", ".join(parts)


def _rows(group: GroupComparison) -> list[list[Cell]]:
    from kgm.text.wording import many

    if group.changes is not None:
        return [*_member_rows(group.changes), *_value_rows(group.changes)]
    only = group.before or group.after
    assert only is not None
    what = "deleted" if group.after is None else "created"
    return [[what, f"group {group.group_id}", f"{only.type}, {only.state}, {many(len(only.members), 'member')}"]]


def _records(group: GroupComparison) -> Iterator[dict[str, Any]]:
    def record(change: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
        return {"group_id": group.group_id, "change": change, "before": before, "after": after, **more}

    changed = group.changes
    if changed is None:
        yield record("deleted" if group.after is None else "created")
        return
    for member in changed.joined:
        yield record("joined", None, member.member_id, identity=member.identity, assignment=member.assignment)
    for member in changed.left:
        yield record("left", member.member_id, None, identity=member.identity, assignment=member.assignment)
    for one in changed.replaced:
        yield record("replaced", one.member_id_before, one.member_id_after, identity=one.identity)
    for status in changed.statuses:
        yield record("status", status.before, status.after, identity=status.name)
    for each in changed.resubscribed:
        topics = _topics(each.topics_before, each.regex_before), _topics(each.topics_after, each.regex_after)
        yield record("subscription", *topics, identity=each.identity)
    for move in changed.moves or ():
        yield record("moved", move.owner_before, move.owner_after, topic=move.topic, partition=move.partition)
    for value in [*changed.values, *([changed.coordinator] if changed.coordinator is not None else [])]:
        yield record("changed", value.before, value.after, name=value.name)
    for topic in changed.topics:
        yield record("topic", topic.before, topic.after, topic=topic.name)
    if changed.moves is None:
        yield record("unknown", name="moves")


def _member_rows(changed: Changes) -> list[list[Cell]]:
    from kgm.text.joined_moves import joined_moves

    rows: list[list[Cell]] = [["joined", member.identity, _member_text(member)] for member in changed.joined]
    rows += [["left", member.identity, _member_text(member)] for member in changed.left]
    rows += [["replaced", one.identity, f"{one.member_id_before} -> {one.member_id_after}"] for one in changed.replaced]
    rows += [["status", one.name, _arrow(one)] for one in changed.statuses if "away" in (one.before, one.after)]
    for one in changed.resubscribed:
        topics = _topics(one.topics_before, one.regex_before), _topics(one.topics_after, one.regex_after)
        rows.append(["subscription", one.identity, " -> ".join(topics)])
    for move in joined_moves(changed.moves or ()):
        rows.append(["moved", move.what, move.owners])
    return rows


def _value_rows(changed: Changes) -> list[list[Cell]]:
    values = [*changed.values, *([changed.coordinator] if changed.coordinator is not None else [])]
    rows: list[list[Cell]] = [["changed", value.name, _arrow(value)] for value in values]
    rows += [["topic", topic.name, f"{_arrow(topic)} partitions"] for topic in changed.topics]
    if changed.moves is None:
        rows.append(["unknown", "moves", "a snapshot was taken during a rebalance, when owners are not known"])
    return rows


def _member_text(member: MemberSnapshot) -> str:
    from kgm.text.wording import partitions_text

    kind = "dynamic" if member.group_instance_id is None else f"member {member.member_id}"
    return f"{kind}, {partitions_text(member.assignment) or 'no partitions'}"


def _topics(topics: Sequence[str], regex: str | None) -> str:
    return ",".join([*topics, *([f"/{regex}/"] if regex else [])]) or "nothing"


def _arrow(one: Changed) -> str:
    return f"{'-' if one.before is None else one.before} -> {'-' if one.after is None else one.after}"
