"""What the group is doing: its state, and what committed offsets say about its members' progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kgm.client.topic_log.partition_log import OFFSETS_TOPIC
from kgm.clients.subscribed_topics import subscribed_topics
from kgm.model.changes import IN_TRANSITION
from kgm.model.snapshot import GroupSnapshot, OffsetSnapshot
from kgm.operations.deletion.idleness import IdleVerdict
from kgm.operations.doctor.findings import Finding, Severity, partition_names, reset_line, server_of
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.operations.doctor.own_commits import OwnCommits, is_streams
from kgm.operations.groups.rebalance_wait import RebalanceWait, rebalance_wait
from kgm.operations.groups.refused_sessions import limits_text, refused_members, sessions_text
from kgm.text.durations import show_age, show_duration
from kgm.text.names import in_order
from kgm.text.shell import shell_word
from kgm.text.wording import grouped, lost_text, many, past_end_text, some

_STATES: Final = IN_TRANSITION | {"Stable", "Empty"}
_DAY_MS: Final = 86_400_000
#: Offsets expire soon when less than this share of their retention is left.
_SOON: Final = 0.25
#: A group is behind when the records waiting exceed those that arrive in this many windows between two looks.
_MANY_WINDOWS: Final = 10
_MOST_PARTITIONS: Final = 5
#: How old a commit can be and still count as recent, and how much later than the last member's departure a commit must
#: be for it not to be that member's own.
_RECENT_COMMIT_MS: Final = 600_000
_SLACK_MS: Final = 5_000


def odd_state(facts: GroupFacts) -> Iterator[Finding]:
    """A group that is dead, in an unknown state, or in a rebalance that does not finish."""
    state = facts.group.state
    if state not in _STATES:
        yield facts.finding(
            "odd-state", Severity.ERROR, f"the state of the group is {state}", about=[state],
            run=("describe", "--state"),
        )  # fmt: skip
    elif state in IN_TRANSITION and facts.earlier is not None and facts.earlier.state in IN_TRANSITION:
        wait = facts.wait or rebalance_wait(facts.group, seen_for_ms=facts.window_ms)
        needs_join = wait is not None and wait.needs_join
        yield facts.finding(
            "rebalancing", Severity.WARNING, _rebalancing(facts.group, wait),
            *([] if wait is None else [wait.headline, *wait.lines()]),
            f"{facts.earlier.state}, and {show_duration(facts.window_ms)} later {state}",
            f"{many(len(facts.group.members), 'member')}",
            about=[] if wait is None else [one.identity for one in wait.awaited],
            run=("describe",) if needs_join else ("watch", "--until", "stable", "--timeout", "5m"),
        )  # fmt: skip


def _rebalancing(group: GroupSnapshot, wait: RebalanceWait | None) -> str:
    if group.type == "classic":
        return "the group is rebalancing; with the classic protocol its members may not consume meanwhile"
    if wait is not None and wait.needs_join:
        return "the group has no assignment for its newest epoch, and gets none until a member joins or rejoins"
    whom = f", and waits for {many(len(wait.awaited), 'member')}" if wait is not None and wait.awaited else ""
    return f"the group is reconciling{whom}"


def full_group(facts: GroupFacts) -> Iterator[Finding]:
    """A group that will refuse its next member."""
    size = len(facts.group.members)
    if facts.max_size is not None and size >= facts.max_size:
        yield facts.finding(
            "group-full", Severity.WARNING,
            "the group is full: the next member is refused with GROUP_MAX_SIZE_REACHED, and so is a static member that "
            "restarts, until its session ends",
            f"{many(size, 'member')}, and the broker allows {facts.max_size}", run=("describe",),
        )  # fmt: skip


def refused_rejoins(facts: GroupFacts) -> Iterator[Finding]:
    """A group whose members the broker will refuse in the next rebalance, because it does not allow their session
    timeouts."""
    if facts.group.type != "classic":
        return
    lowest_ms, longest_ms = facts.min_session_timeout_ms, facts.max_session_timeout_ms
    known = {one.member_id: facts.group.session_of(one) for one in facts.group.members}
    sessions_ms = {member_id: ms for member_id, ms in known.items() if ms is not None}
    refused = refused_members((*facts.static, *facts.dynamic), sessions_ms, lowest_ms, longest_ms)
    if refused:
        yield facts.finding(
            "rejoins-refused", Severity.WARNING,
            f"{len(refused)} of {many(len(facts.group.members), 'member')} will be refused with "
            "INVALID_SESSION_TIMEOUT in the next rebalance, and lose their partitions",
            f"{limits_text(lowest_ms, longest_ms)}, and members have {sessions_text(refused, sessions_ms)}",
            about=[one.identity for one in refused], run=("describe",),
        )  # fmt: skip


def growing_lag(facts: GroupFacts) -> Iterator[Finding]:
    """A group whose members commit offsets but still fall behind."""
    pairs = [(then, row) for then, row in _seen_twice(facts) if then.lag is not None and row.lag is not None]
    arrived = sum((row.end or 0) - (then.end or 0) for then, row in pairs)
    done = sum((row.committed or 0) - (then.committed or 0) for then, row in pairs)
    lag = sum(then.lag or 0 for then, _ in pairs)
    # Lag grows between commits in any group. A group is behind when far more records wait than arrive in the window,
    # and when less is committed than the timing of commits explains: one commit in five seconds, seen for six, covers
    # at least 5/6 of what arrived.
    if not done or done * 5 > arrived * 4 or lag < arrived * _MANY_WINDOWS:
        return
    worst = sorted(pairs, key=lambda pair: -(pair[1].lag or 0))[:_MOST_PARTITIONS]
    per_s = (arrived - done) * 1000 / facts.window_ms
    yield facts.finding(
        "growing-lag", Severity.WARNING,
        f"the group falls behind: lag {lag + arrived - done}, and it grows by {per_s:.3g} records a second",
        f"{arrived} records arrived in {show_duration(facts.window_ms)}, and {done} were committed",
        f"most wait in {grouped([(row.topic, row.partition) for _, row in worst])}",
        about=partition_names([(row.topic, row.partition) for _, row in worst]), run=("describe", "--offsets"),
    )  # fmt: skip


def left_behind(facts: GroupFacts) -> Iterator[Finding]:
    """An empty group with lag, an unused group, and a group whose offsets will expire."""
    group = facts.group
    if group.state != "Empty" or group.members:
        return
    lagging = [row for row in group.offsets if facts.has_to_read(row)]
    last = facts.recorded[-1] if facts.recorded else None
    since_ms = last.at_ms if last is not None and not last.group.members else None
    since = () if since_ms is None else (f"empty for {show_age(facts.now_ms - since_ms)}",)
    if lagging:
        pairs = [(row.topic, row.partition) for row in lagging]
        yield facts.finding(
            "empty-with-lag", Severity.WARNING,
            f"the group is empty, with lag {sum(row.lag or 0 for row in lagging)}",
            f"lag in {grouped(pairs)}", *since, about=partition_names(pairs), run=("describe", "--offsets"),
        )  # fmt: skip
    idle = facts.idleness
    if idle is not None and idle.verdict is IdleVerdict.IDLE:
        yield facts.finding(
            "idle-group", Severity.INFO, "nothing uses the group: it has no members and no recent commits",
            *idle.evidence, run=("delete-groups", "--dry-run"),
        )  # fmt: skip
    yield from _standalone(facts, since_ms)
    if since_ms is None or facts.retention_ms is None or not group.offsets:
        return
    left_ms = since_ms + facts.retention_ms - facts.now_ms
    if left_ms < max(_DAY_MS, facts.retention_ms * _SOON):
        when = f"in {show_age(left_ms)}" if left_ms > 0 else "at any moment"
        yield facts.finding(
            "offsets-expire-soon", Severity.ERROR if left_ms < _DAY_MS else Severity.WARNING,
            f"the committed offsets expire {when}; consumers that join after that start where auto.offset.reset says",
            *since, f"offsets.retention.minutes is {facts.retention_ms // 60_000}",
            run=("describe", "--offsets", "-o", "json"),
        )  # fmt: skip


def _standalone(facts: GroupFacts, since_ms: int | None) -> Iterator[Finding]:
    """Recent commits in a group without members. since_ms: when the group became empty; None if, according to its log,
    it never had members."""
    ages_ms = [row.commit_age_ms for row in facts.group.offsets if row.commit_age_ms is not None]
    if not ages_ms or min(ages_ms) > _RECENT_COMMIT_MS:
        return
    if since_ms is not None and facts.now_ms - min(ages_ms) < since_ms + _SLACK_MS:
        return  # the last member committed it on leaving
    yield facts.finding(
        "commits-without-members", Severity.INFO,
        f"the group has no members, but an offset was committed {show_age(min(ages_ms))} ago: by a consumer that "
        "assigns its partitions itself (assign), or an admin",
        "such consumers are not members, and only share the group's committed offsets", run=("history offsets",),
    )  # fmt: skip


def held_up_by_transactions(facts: GroupFacts) -> Iterator[Finding]:
    """Partitions where read_committed consumers are blocked by an open transaction."""
    held = [row for row in facts.group.offsets if facts.is_held_up(row)]
    if not held or (facts.earlier is not None and not _still(facts, held)):
        return
    pairs = [(row.topic, row.partition) for row in held]
    first = held[0]
    yield facts.finding(
        "open-transaction", Severity.WARNING,
        f"everything is committed up to an open transaction in {many(len(held), 'partition')}: consumers with "
        "isolation.level=read_committed wait for it to end",
        *(f"{row.topic}[{row.partition}]: from offset {facts.stable_ends[row.topic, row.partition]}"
          for row in held[:_MOST_PARTITIONS]),
        "a consumer that also reads uncommitted records would continue, unless it has stopped",
        f"to see how long it has been open: kafka-transactions.sh --bootstrap-server {server_of(facts.group)} "
        f"find-hanging --topic {shell_word(first.topic)} --partition {first.partition}",
        about=partition_names(pairs), run=("describe", "--offsets", "--trend", "10s"),
    )  # fmt: skip


def _still(facts: GroupFacts, held: list[OffsetSnapshot]) -> bool:
    """Whether at least one of the partitions has had no commit since the first description; an open transaction alone
    is normal."""
    before = {} if facts.earlier is None else {(row.topic, row.partition): row for row in facts.earlier.offsets}
    pairs = [(before.get((row.topic, row.partition)), row) for row in held]
    return any(then is not None and then.committed == row.committed and then.lag for then, row in pairs)


def refused_commits(facts: GroupFacts) -> Iterator[Finding]:
    """A group whose commits cannot be written."""
    log = facts.unwritable
    if log is None:
        return
    partition = f"{OFFSETS_TOPIC}-{log.partition}"
    yield facts.finding(
        "commits-refused", Severity.ERROR, log.why_not,
        "the coordinator refuses every commit until more replicas are in sync; what is consumed meanwhile is consumed "
        "again after a restart or a rebalance",
        f"to see its replicas: kafka-topics.sh --bootstrap-server {server_of(facts.group)} --describe --topic "
        f"{OFFSETS_TOPIC}",
        about=[partition], run=("describe", "--offsets"),
    )  # fmt: skip


def silent_owners(facts: GroupFacts) -> Mapping[str, Sequence[OffsetSnapshot]]:
    """The owners that committed nothing between the two descriptions while records were waiting for them, with their
    partitions."""
    old: dict[tuple[str, int], OffsetSnapshot] = {}
    by_owner: dict[str, list[OffsetSnapshot]] = {}
    for then, row in _seen_twice(facts):
        owner = row.group_instance_id or row.member_id
        if owner is None or row.committed is None:
            continue
        old[row.topic, row.partition] = then
        by_owner.setdefault(owner, []).append(row)
    return {
        owner: by_owner[owner]
        for owner in in_order(by_owner)
        if any(facts.has_to_read(row) for row in by_owner[owner]) and _is_stalled(by_owner[owner], old)
    }


def stalled_owners(facts: GroupFacts) -> Iterator[Finding]:
    """Owners that commit nothing while records are waiting for them, although their next commits are overdue. Where
    commits are refused, it is not for the owners to commit."""
    if facts.unwritable is not None:
        return
    now = facts.group
    stalled = {
        owner: rows
        for owner, rows in silent_owners(facts).items()
        if facts.own_commits.get(owner, OwnCommits()).are_overdue(now, facts.window_ms, facts.now_ms)
    }
    if not stalled:
        return
    old = {(then.topic, then.partition): then for then, _ in _seen_twice(facts)}
    lag = {owner: sum(row.lag or 0 for row in rows) for owner, rows in stalled.items()}
    grown = {owner: lag[owner] - sum(old[row.topic, row.partition].lag or 0 for row in rows)
             for owner, rows in stalled.items()}  # fmt: skip
    growing = sum(more for more in grown.values() if more > 0)
    pairs = {owner: [(row.topic, row.partition) for row in rows] for owner, rows in stalled.items()}
    yield facts.finding(
        "stalled-owner", Severity.ERROR if growing else Severity.WARNING,
        f"{len(stalled)} of {len(now.members)} members committed no offset for {show_duration(facts.window_ms)}; "
        + (f"{growing} more records arrived" if growing else f"{sum(lag.values())} records are waiting"),
        *(f"{_member_name(facts, owner)}: lag {lag[owner]} in {grouped(pairs[owner])}" for owner in list(stalled)[:5]),
        about=stalled, run=("describe", "--offsets"),
    )  # fmt: skip


def stalled_partitions(facts: GroupFacts) -> Iterator[Finding]:
    """Partitions where nothing is committed, although their owner commits everything that waits in others."""
    by_owner: dict[str | None, list[tuple[OffsetSnapshot, OffsetSnapshot]]] = {}
    for then, row in _seen_twice(facts):
        if then.committed is not None and row.committed is not None:
            by_owner.setdefault(row.member_id, []).append((then, row))
    stuck: list[OffsetSnapshot] = []
    for pairs in by_owner.values():
        moved = [(then, row) for then, row in pairs if row.committed != then.committed]
        # The owner may be reading the backlog of its other partitions first.
        if moved and all((row.committed or 0) >= (then.end or 0) for then, row in moved):
            still = [row for then, row in pairs if row.committed == then.committed and then.lag]
            stuck += [row for row in still if facts.has_to_read(row)]
    if stuck:
        yield facts.finding(
            "stalled-partition", Severity.WARNING,
            f"nothing was committed for {show_duration(facts.window_ms)} in {many(len(stuck), 'partition')}, while "
            "the owner committed all that waited in others",
            *(
                f"{row.topic}[{row.partition}]: stays at offset {row.committed}, lag {row.lag}; owner "
                + _member_name(facts, row.group_instance_id or row.member_id or "")
                for row in stuck[:_MOST_PARTITIONS]
            ),
            "a record there may fail again and again, or the application has paused the partition"
            + ", or restores a task behind a transaction that is still open" * is_streams(facts.group),
            about=partition_names([(row.topic, row.partition) for row in stuck]),
            run=("describe", "--only-lagging", "--lag-time"),
        )  # fmt: skip


def _seen_twice(facts: GroupFacts) -> list[tuple[OffsetSnapshot, OffsetSnapshot]]:
    """(then, now) for each partition of a stable group that had the same owner in both descriptions; empty if the group
    was described only once."""
    if facts.earlier is None or facts.group.state != "Stable" or not facts.window_ms:
        return []
    before = {(row.topic, row.partition): row for row in facts.earlier.offsets}
    pairs = [(before.get((row.topic, row.partition)), row) for row in facts.group.offsets if row.member_id is not None]
    return [(then, row) for then, row in pairs if then is not None and then.member_id == row.member_id]


def _is_stalled(rows: list[OffsetSnapshot], old: dict[tuple[str, int], OffsetSnapshot]) -> bool:
    """Whether nothing was committed for any of the owner's partitions while at least one of them had lag in both
    descriptions."""
    if any(row.committed != old[row.topic, row.partition].committed for row in rows):
        return False
    return any(row.lag and old[row.topic, row.partition].lag for row in rows)


def _member_name(facts: GroupFacts, owner: str) -> str:
    member = next((one for one in facts.group.members if one.identity == owner), None)
    return owner if member is None or not member.client_host else f"{owner} ({member.client_id}, {member.client_host})"


def odd_offsets(facts: GroupFacts) -> Iterator[Finding]:
    """Committed offsets that cannot be right, that no member uses, or that are missing."""
    group = facts.group
    beyond = [(row.topic, row.partition) for row in group.offsets if row.is_past_end]
    if beyond:
        yield facts.finding(
            "committed-beyond-end", Severity.ERROR, past_end_text(group.past_end),
            f"in {grouped(beyond)}", *reset_line(group, beyond, "--to-latest"), about=partition_names(beyond),
            run=("describe", "--offsets"),
        )  # fmt: skip
    if group.lost:
        yield facts.finding(
            "records-lost", Severity.ERROR, lost_text(group.lost),
            "retention has deleted them: consumers continue where auto.offset.reset says",
            *reset_line(group, [*group.lost], "--to-earliest"),
            about=partition_names([*group.lost]), run=("describe", "--offsets"),
        )  # fmt: skip
    deleted = group.deleted_topics
    if deleted:
        yield facts.finding(
            "deleted-topics", Severity.WARNING,
            f"it has partitions or committed offsets of {many(len(deleted), 'deleted topic')}: their lag is unknown",
            f"deleted: {some(deleted)}", *_still_wanted(group, deleted), about=deleted, run=("describe", "--offsets"),
        )  # fmt: skip
    subscribed = subscribed_topics(group.members, group.topics)
    if group.state != "Stable" or not subscribed:
        return
    left = {row.topic for row in group.offsets if row.member_id is None and row.topic not in subscribed}
    unused = in_order(left - {*deleted})
    if unused:
        yield facts.finding(
            "offsets-of-other-topics", Severity.INFO,
            "there are committed offsets for topics that no member subscribes to; they will expire",
            f"topics: {', '.join(unused[:5])}", about=unused, run=("delete-groups", "--stale-topics", "--dry-run"),
        )  # fmt: skip
    uncommitted = [row for row in group.offsets if row.member_id is not None and row.end and row.committed is None]
    if uncommitted:
        pairs = [(row.topic, row.partition) for row in uncommitted]
        yield facts.finding(
            "nothing-committed", Severity.INFO,
            f"no offset is committed for {many(len(pairs), 'partition')} with records: the lag there is unknown",
            f"in {grouped(pairs)}",
            "its consumers have not committed yet, never commit, or keep their offsets elsewhere",
            about=partition_names(pairs), run=("describe", "--offsets"),
        )  # fmt: skip


def _still_wanted(group: GroupSnapshot, deleted: tuple[str, ...]) -> Iterator[str]:
    wanting = [one.identity for one in group.members if {*one.known_topics} & {*deleted}]
    if wanting:
        yield f"still subscribed to by {some(wanting)}: create it again, or change the subscription"


CHECKS: Final = (
    odd_state, left_behind, full_group, refused_rejoins, growing_lag, held_up_by_transactions, refused_commits,
    stalled_owners, stalled_partitions, odd_offsets,
)  # fmt: skip
