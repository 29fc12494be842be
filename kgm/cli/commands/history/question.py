"""What the commands that ask have in common: which group, which window, and what reading has noticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgm.cli.commands.history.rows import at
from kgm.cli.output.notices import Notices
from kgm.model.errors import NotFoundError, UsageError
from kgm.text.wording import many

if TYPE_CHECKING:
    from kgm.cli.commands.history.source import Where
    from kgm.cli.options.run_options import RunOptions
    from kgm.history.folders import Damage
    from kgm.history.store.store import Row, Tables

Group = Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Only this group.")]
TheGroup = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")]
GroupOption = Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="The same as GROUP.")]
Match = Annotated[str | None, typer.Option("--match", metavar="GLOB", help="Only groups whose id matches.")]
#: Tables in which a group shows up if there is anything of it.
_SEEN_IN = ("silver_snapshot", "silver_group_epoch", "silver_member_state", "silver_commit")


def one_group(group: str | None, option: str | None) -> str:
    """The group that is asked for. Raises UsageError."""
    found = maybe_group(group, option)
    if found is None:
        raise UsageError("no group is given", hint="name one; `kgm history churn` lists those in which much happens")
    return found


def maybe_group(group: str | None, option: str | None) -> str | None:
    if group is not None and option is not None and group != option:
        raise UsageError(f"two groups are given: {group} and {option}")
    return group if group is not None else option


def matching(rows: Iterable[Mapping[str, Any]], pattern: str | None) -> list[Mapping[str, Any]]:
    """Rows of groups whose id matches."""
    import fnmatch

    return [row for row in rows if pattern is None or fnmatch.fnmatchcase(row["group_id"], pattern)]


def check_group(tables: Tables, where: Where, group: str) -> None:
    """Raises NotFoundError if the history has nothing of the group at any time."""
    from kgm.history.store.store import Asked

    for name in _SEEN_IN:
        if len(tables.table(name, Asked(group_ids=(group,)), ["group_id"])):
            return
    raise NotFoundError(
        f"the history has nothing of group {group}",
        facts=(f"asked: {where.text}",),
        hint=f"the groups that it has: kgm history rebalances {where.text} -o name",
        group_id=group,
    )


def rebalances_of(tables: Tables, where: Where, group: str | None, columns: Sequence[str] | None = None) -> list[Row]:
    """Rebalances by time, of a group or of all, as the brokers' logs explain them where they are given. columns: those
    that are needed, the ones of the place and time among them."""
    if not where.broker_logs:
        return sorted(tables.rows("gold_rebalance", where.asked(group), columns), key=_order)
    from kgm.history.causes.broker_log import explained
    from kgm.history.store.store import Asked

    # Groups that were removed count their generations from the beginning: all of their lives are needed.
    every = tables.rows("gold_rebalance", Asked(group_ids=None if group is None else (group,)))
    found = explained(sorted(every, key=_order), where.broker_says())
    since, until = where.since_ms, where.until_ms
    return [
        row
        for row in found
        if (since is None or row["timestamp"] >= since) and (until is None or row["timestamp"] < until)
    ]


def _order(row: Mapping[str, Any]) -> tuple[int, int, int]:
    """Records of one partition never change places."""
    return row["timestamp"], row["partition"], row["offset"]


def window_json(tables: Tables, where: Where) -> dict[str, Any]:
    """What was asked, and of when."""
    return {
        "source": tables.about.get("source"),
        "store": None if where.store is None or where.kind is not None else str(where.store),
        "since": at(where.since_ms),
        "until": at(where.until_ms),
    }


def cluster_of(tables: Tables) -> dict[str, Any] | None:
    """The `cluster` of the envelope."""
    found = tables.about.get("cluster")
    return None if found is None else {"id": found, "bootstrap": None}


def warn_of_damage(tables: Tables, common: RunOptions) -> None:
    """Say on stderr where a segment could not be read; a torn tail is usual in a copy of a running broker's files."""
    warn_of(tables.about.get("damages") or (), common)


def warn_of(damages: Sequence[Damage], common: RunOptions) -> None:  # noqa: ARG001
    """The same of what reading has noted."""
    voice = Notices()
    for damage in damages:
        if not damage.torn:
            where = "" if damage.position is None else f" at byte {damage.position}"
            voice.warn(f"{damage.path}{where}: {damage.reason}; what follows in this file is not read")
    torn = sum(damage.torn for damage in damages)
    if torn:
        voice.note(f"{many(torn, 'segment')} ended in the middle of a batch, as copies of a running broker's files do")
