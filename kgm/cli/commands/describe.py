"""`kgm describe`: members with instance ids, assignments, lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgm.cli.options.common import Common, cluster
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.model.assignment import count
from kgm.model.errors import KgmError, NotFoundError, UsageError
from kgm.text.durations import show_duration
from kgm.text.wording import many, partitions_text

if TYPE_CHECKING:
    from kgm.client import AdminClient
    from kgm.model.snapshot import GroupSnapshot, MemberSnapshot

SCHEMA = "kgm.describe/v1"


@cluster
def describe(
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups to describe.")] = None,
    *,
    group: Annotated[list[str] | None, typer.Option("-g", "--group", help="A group; repeatable.")] = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Groups whose id matches.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Every group that is visible to us.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Members and what they own (the default).")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Committed and end offsets, lag, owner.")] = False,
    state: Annotated[bool, typer.Option("--state", help="One line a group: state, assignor, coordinator.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Everything that is known of each member.")] = False,
    common: Common,
) -> None:
    """Describe groups: members with instance ids, assignments, lag."""
    from kgm.cli.completion.cache import remember
    from kgm.cli.output.failures import finish, warn_of_unseen_topics
    from kgm.cli.output.progress import progress

    if members + offsets + state > 1:
        raise UsageError("--members, --offsets and --state exclude each other")
    named = [*(groups or ()), *(group or ())]
    if not named and match is None and not all_groups:
        hint = "name one, or use --match GLOB or --all-groups; `kgm list` shows them"
        raise UsageError("no group is given", hint=hint)
    with common.cluster(reads_only=True) as connected, progress(common, "describing groups"):
        wanted, problems = _wanted(connected, named, match, everything=all_groups)
        answers = connected.describe_groups(wanted) if wanted else []
        warn_of_unseen_topics(connected)
        where = cluster_json(connected)
    found = [answer for answer in answers if not isinstance(answer, KgmError)]
    errors = problems + [answer for answer in answers if isinstance(answer, KgmError)]
    gone = [error.group_id for error in errors if isinstance(error, NotFoundError) and error.group_id is not None]
    remember(common, found, gone=gone)
    if state:
        tables = [state_table(found)]
    elif offsets:
        tables = [offsets_table(snapshot) for snapshot in found]
    else:
        tables = [members_table(snapshot, verbose=verbose) for snapshot in found]
    emit(report(found, errors, tables, where, by_state=state, by_offset=offsets, is_data=common.is_data), common)
    finish(errors, done=len(found))


def _wanted(
    connected: AdminClient, named: list[str], match: str | None, *, everything: bool
) -> tuple[list[str], list[KgmError]]:
    """Group ids in the order asked, each once; a pattern that matches nothing is an error."""
    import fnmatch

    from kgm.cli.output.failures import warn_of_unseen_groups

    wanted = list(dict.fromkeys(named))
    errors: list[KgmError] = []
    if match is not None or everything:
        listing = connected.list_groups()
        warn_of_unseen_groups(connected, listing)
        errors = list(listing.errors)
        ids = sorted(row.group_id for row in listing.groups)
        chosen = [name for name in ids if match is None or fnmatch.fnmatchcase(name, match)]
        if match is not None and not chosen and not errors:
            errors.append(NotFoundError(f"no group matches {match}", facts=[f"{len(ids)} groups are visible"]))
        wanted = list(dict.fromkeys([*wanted, *chosen]))
    return wanted, errors


def report(
    found: list[GroupSnapshot],
    errors: list[KgmError],
    tables: list[Table],
    where: dict[str, str | None],
    *,
    by_state: bool,
    by_offset: bool,
    is_data: bool = True,
) -> Report:
    """The report of a describe: the snapshots are the data, one item a group, or a row, or a member.

    is_data: not for tables alone, which need no JSON of thousands of members."""
    jsons = [snapshot.to_json() for snapshot in found] if is_data else []
    if by_state:
        items, names = jsons, [snapshot.group_id for snapshot in found]
    else:
        key = "offsets" if by_offset else "members"
        items = [{"group_id": group["group_id"], **row} for group in jsons for row in group[key]]
        names = [member.identity for snapshot in found for member in sorted(snapshot.members, key=lambda m: m.identity)]
    return Report(
        schema=SCHEMA, data={"groups": jsons}, tables=tables, names=names, items=items, cluster=where, errors=errors
    )


def heading(snapshot: GroupSnapshot) -> str:
    """One line about a group."""
    parts = [snapshot.group_id, snapshot.type, snapshot.state]
    if snapshot.assignor:
        parts.append(snapshot.assignor)
    if snapshot.group_epoch is not None:
        parts.append(f"epoch {snapshot.group_epoch} (assignment {snapshot.assignment_epoch})")
    if snapshot.generation is not None:
        parts.append(f"generation {snapshot.generation}")
    if snapshot.session_timeout_ms is not None:
        parts.append(f"session {show_duration(snapshot.session_timeout_ms)}")
    static = sum(member.group_instance_id is not None for member in snapshot.members)
    parts.append(f"{many(len(snapshot.members), 'member')}, {static} static")
    if snapshot.coordinator is not None:
        at = snapshot.coordinator
        parts.append(f"coordinator {at.id} ({at.host}:{at.port})")
    return "  ".join(parts)


def members_table(snapshot: GroupSnapshot, *, verbose: bool = False) -> Table:
    """One row a member, by identity; members without partitions too."""
    extra = not verbose
    columns = [
        Column(title="GROUP", data=True),
        Column(title="INSTANCE-ID"),
        Column(title="MEMBER-ID"),
        Column(title="CLIENT-ID", wide=extra),
        Column(title="HOST"),
        Column(title="STATUS"),
        Column(title="EPOCH", wide=extra, right=True),
        Column(title="PROTOCOL", wide=extra),
        Column(title="RACK", wide=extra),
        Column(title="SUBSCRIPTION", wide=extra),
        Column(title="PARTITIONS", right=True),
        Column(title="LAG", right=True),
        Column(title="ASSIGNMENT"),
        Column(title="TARGET", wide=extra),
    ]
    rows = [_member_row(snapshot, member) for member in sorted(snapshot.members, key=lambda member: member.identity)]
    return Table(columns=columns, rows=rows, heading=heading(snapshot), notes=_unowned(snapshot))


def _member_row(snapshot: GroupSnapshot, member: MemberSnapshot) -> list[Cell]:
    subscription = ",".join([*sorted(member.topics), *([f"/{member.regex}/"] if member.regex else ())])
    target = member.target_assignment
    return [
        snapshot.group_id,
        member.group_instance_id,
        member.member_id,
        member.client_id,
        member.client_host,
        member.status,
        member.member_epoch,
        member.protocol,
        member.rack,
        subscription,
        count(member.assignment),
        member.lag,
        partitions_text(member.assignment) or None,
        None if target is None else partitions_text(target) or None,
    ]


def _unowned(snapshot: GroupSnapshot) -> list[str]:
    """Partitions of subscribed topics that nobody owns: what an operator must not overlook."""
    if not snapshot.members:
        return []
    owned = {(t, p) for member in snapshot.members for t, partitions in member.assignment.items() for p in partitions}
    subscribed = {topic for member in snapshot.members for topic in member.topics}
    free = {
        topic.name: [p for p in range(topic.partitions) if (topic.name, p) not in owned]
        for topic in snapshot.topics
        if topic.name in subscribed
    }
    text = partitions_text({topic: partitions for topic, partitions in free.items() if partitions})
    return [f"owned by nobody: {text}"] if text else []


def offsets_table(snapshot: GroupSnapshot) -> Table:
    """One row a partition."""
    columns = [
        Column(title="GROUP", data=True),
        Column(title="TOPIC"),
        Column(title="PARTITION", right=True),
        Column(title="COMMITTED", right=True),
        Column(title="END", right=True),
        Column(title="LAG", right=True),
        Column(title="INSTANCE-ID"),
        Column(title="MEMBER-ID"),
    ]
    rows: list[list[Cell]] = []
    for row in sorted(snapshot.offsets, key=lambda row: (row.topic, row.partition)):
        owner = [row.group_instance_id, row.member_id]
        rows.append([snapshot.group_id, row.topic, row.partition, row.committed, row.end, row.lag, *owner])
    return Table(columns=columns, rows=rows, heading=heading(snapshot))


def state_table(found: list[GroupSnapshot]) -> Table:
    """One row a group."""
    columns = [
        Column(title="GROUP"),
        Column(title="TYPE"),
        Column(title="STATE"),
        Column(title="ASSIGNOR"),
        Column(title="MEMBERS", right=True),
        Column(title="STATIC", right=True),
        Column(title="EPOCH", right=True),
        Column(title="LAG", right=True),
        Column(title="COORDINATOR"),
    ]
    rows: list[list[Cell]] = []
    for one in found:
        at = one.coordinator
        static = sum(member.group_instance_id is not None for member in one.members)
        epoch = one.group_epoch if one.group_epoch is not None else one.generation
        where = None if at is None else f"{at.id} ({at.host}:{at.port})"
        rows.append([one.group_id, one.type, one.state, one.assignor, len(one.members), static, epoch, one.lag, where])
    return Table(columns=columns, rows=rows)
