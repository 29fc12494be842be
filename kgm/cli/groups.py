"""`kgm list`: the groups of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from kgm.cli.options import Common, cluster
from kgm.cli.output import Cell, Column, Report, Table, emit

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

    from kgm.cli.failures import finish

    with common.cluster(reads_only=True) as connected:
        listing = connected.list_groups(states=_split(state), types=_split(kind))
        rows = [row for row in listing.groups if match is None or fnmatch.fnmatchcase(row.group_id, match)]
        rows.sort(key=lambda row: row.group_id)
        members = connected.member_counts(rows)
        where = connected.identity()
    items = [
        {
            "group_id": row.group_id,
            "type": row.type,
            "state": row.state,
            "protocol_type": row.protocol_type,
            "members": members.get(row.group_id),
            "coordinator": {"id": row.coordinator.id, "host": row.coordinator.host, "port": row.coordinator.port},
        }
        for row in rows
    ]
    columns = [
        Column(title="GROUP"),
        Column(title="TYPE"),
        Column(title="STATE"),
        Column(title="MEMBERS", right=True),
        Column(title="PROTOCOL-TYPE", wide=True),
        Column(title="COORDINATOR", wide=True, right=True),
    ]
    lines: list[list[Cell]] = [
        [row.group_id, row.type, row.state, members.get(row.group_id), row.protocol_type, row.coordinator.id]
        for row in rows
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


def _split(values: list[str] | None) -> list[str]:
    """Words of a repeatable option that also takes commas."""
    return [word.strip() for value in values or () for word in value.split(",") if word.strip()]
