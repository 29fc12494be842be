"""`kgm list`: the groups of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.options.common import Common, cluster
from kgm.cli.output.report import Cell, Column, Report, Table, cluster_json, emit
from kgm.model.errors import KgmError

if TYPE_CHECKING:
    from kgm.client.group_listing import ListedGroup
    from kgm.model.snapshot import GroupSnapshot

SCHEMA = "kgm.list/v1"


@cluster
def list_groups(
    *,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state, any case; repeatable or a,b.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="classic, consumer, share or streams; repeatable or a,b."),
    ] = None,
    match: Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Only groups whose id matches.")] = None,
    common: Common,
) -> None:
    """List the groups that are visible to us: id, type, state, members."""
    import fnmatch

    from kgm.cli.completion.cache import remember
    from kgm.cli.output.failures import finish, warn_of_unseen_groups
    from kgm.cli.output.progress import progress

    with common.cluster(reads_only=True) as connected, progress(common, "asking for the groups"):
        listing = connected.list_groups(states=_split(state), types=_split(kind))
        rows = [row for row in listing.groups if match is None or fnmatch.fnmatchcase(row.group_id, match)]
        rows.sort(key=lambda row: row.group_id)
        warn_of_unseen_groups(connected, listing)
        described = connected.rosters([row.group_id for row in rows])
        where = cluster_json(connected)
    seen = {answer.group_id: answer for answer in described if not isinstance(answer, KgmError)}
    is_all = match is None and not state and not kind and not listing.errors
    remember(common, seen.values(), listed=[row.group_id for row in rows], is_all=is_all)
    items = [_item(row, seen.get(row.group_id)) for row in rows]
    columns = [
        Column(title="GROUP"),
        Column(title="TYPE"),
        Column(title="STATE"),
        Column(title="MEMBERS", right=True),
        Column(title="PROTOCOL-TYPE", wide=True),
        Column(title="COORDINATOR", wide=True, right=True),
    ]
    lines: list[list[Cell]] = [
        [
            item["group_id"],
            item["type"],
            item["state"],
            item["members"],
            item["protocol_type"],
            None if item["coordinator"] is None else item["coordinator"]["id"],
        ]
        for item in items
    ]
    emit(
        Report(
            schema=SCHEMA,
            data={"groups": items},
            tables=[Table(columns=columns, rows=lines)],
            names=[row.group_id for row in rows],
            items=items,
            cluster=where,
            errors=listing.errors,
        ),
        common,
    )
    finish(listing.errors, done=len(rows))


def _item(row: ListedGroup, seen: GroupSnapshot | None) -> dict[str, Any]:
    """One group. What only a description tells is null where the group could not be described."""
    at = None if seen is None else seen.coordinator
    return {
        "group_id": row.group_id,
        "type": row.type or (None if seen is None else seen.type),
        "state": row.state or (None if seen is None else seen.state),
        "protocol_type": row.protocol_type,
        "members": None if seen is None else len(seen.members),
        "coordinator": None if at is None else {"id": at.id, "host": at.host, "port": at.port},
    }


def _split(values: list[str] | None) -> list[str]:
    """Words of a repeatable option that also takes commas."""
    return [word.strip() for value in values or () for word in value.split(",") if word.strip()]
