"""What a change would have avoided in a group, in words."""

from kgm.operations.history.advice.gains import Bound, Gain, Replays, Spared
from kgm.operations.history.advice.recorded import Recording
from kgm.simulation.replay.changes import GroupChange, GroupChangeKind
from kgm.simulation.replay.recorded_group import ReplayedGroup
from kgm.text.durations import show_duration
from kgm.text.wording import many

_NAMES_SHOWN = 3


def text_of(group: ReplayedGroup, change: GroupChange, gain: Gain, bound: Bound) -> str:
    """`with static membership 31 of these 40 rebalances and 610 of 720 moves would not have happened`."""
    counted = [(gain.rebalances, "rebalances"), (gain.moves, "moves")]
    if change.kind is GroupChangeKind.ASSIGNOR:
        counted.append((gain.interruptions, "interruptions of partitions"))
    parts = [_spared(each, what, bound) for each, what in counted if each.most > 0]
    listed = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1] if parts else "nothing"
    more = gain.rebalances
    worse = "" if more.typical >= 0 else f"; there would have been {_more(more)} more"
    return f"with {_with(group, change)} {listed.replace(' of ', ' of these ', 1)} would not have happened{worse}"


def _spared(spared: Spared, what: str, bound: Bound) -> str:
    if bound is Bound.AT_MOST or (not spared.is_exact and spared.least <= 0):
        return f"at most {spared.most} of {spared.recorded} {what}"
    if spared.is_exact:
        return f"{spared.most} of {spared.recorded} {what}"
    return f"{spared.least} to {spared.most} of {spared.recorded} {what}"


def _more(spared: Spared) -> str:
    least, most = max(-spared.most, 0), -spared.least
    return many(most, "rebalance") if least == most else f"{least} to {most} rebalances"


def _with(group: ReplayedGroup, change: GroupChange) -> str:
    session_ms = change.session_timeout_ms
    session = "" if session_ms is None else f"a session timeout of {show_duration(session_ms)}"
    match change.kind:
        case GroupChangeKind.STATIC_MEMBERSHIP:
            return "static membership (group.instance.id)"
        case GroupChangeKind.STATIC_AND_SESSION:
            return f"static membership (group.instance.id) and {session}"
        case GroupChangeKind.SESSION_TIMEOUT:
            return f"{session} instead of {show_duration(group.session_timeout_ms)}"
        case GroupChangeKind.ASSIGNOR:
            return f"{change.assignor} instead of {group.assignor}"
        case GroupChangeKind.TOGETHER:
            return "all members of a rollout restarted at the same time"
        case GroupChangeKind.ONE_AT_A_TIME:
            return "one member of a rollout restarted at a time"
        case GroupChangeKind.KEEP_RUNNING:
            more = ", ..." if len(change.processes) > _NAMES_SHOWN else ""
            return f"{', '.join(change.processes[:_NAMES_SHOWN])}{more} running all the time"
        case GroupChangeKind.MAX_POLL_INTERVAL:
            interval_ms = change.max_poll_interval_ms or 0
            now = show_duration(group.rebalance_timeout_ms)
            return f"max.poll.interval.ms at {show_duration(interval_ms)} instead of {now}"


def price_of(change: GroupChange, group: ReplayedGroup) -> str | None:
    """What the change costs; None if no cost is known."""
    later = None
    if change.session_timeout_ms is not None:
        later = (
            f"a member that dies is noticed {show_duration(change.session_timeout_ms - group.session_timeout_ms)} later"
        )
    match change.kind:
        case GroupChangeKind.STATIC_MEMBERSHIP | GroupChangeKind.STATIC_AND_SESSION:
            waits = "while a member is away, no other member consumes its partitions"
            return waits if later is None else f"{waits}; {later}"
        case GroupChangeKind.SESSION_TIMEOUT:
            return later
        case GroupChangeKind.TOGETHER:
            return "all of them are away at the same time"
        case GroupChangeKind.ONE_AT_A_TIME:
            return "the rollout takes longer"
        case GroupChangeKind.ASSIGNOR:
            return "a rebalance that moves partitions takes two rounds; the change takes two rolling restarts"
        case GroupChangeKind.KEEP_RUNNING:
            return None
        case GroupChangeKind.MAX_POLL_INTERVAL:
            more_ms = (change.max_poll_interval_ms or 0) - group.rebalance_timeout_ms
            later = show_duration(more_ms)
            return f"an application that hangs is noticed {later} later, and rebalances wait for it that much longer"


def caveats_of(recording: Recording, replays: Replays, change: GroupChange) -> tuple[str, ...]:
    """What the replays cannot know."""
    group, caveats = recording.group, []
    unsure = group.unsure_restarts
    if unsure and change.kind.is_about_restarts:
        caveats.append(
            f"{many(unsure, 'start')} may belong to other processes: several members have the same client id and host"
        )
    if change.kind is GroupChangeKind.MAX_POLL_INTERVAL and recording.has_unsure_stalls:
        caveats.append("it is not certain that some members' applications really failed to poll (--broker-log)")
    if not replays.is_faithful:
        least, most = replays.replayed
        counts = str(least) if least == most else f"{least} to {most}"
        caveats.append(f"replayed unchanged, the history has {counts} rebalances instead of {recording.rebalances}")
    if not recording.is_session_known:
        assumed = show_duration(group.expired_after_ms)
        caveats.append(f"the session timeout is not known: {assumed} is assumed (--session-timeout)")
    if not recording.are_partitions_known:
        caveats.append("topics or subscriptions changed in the meantime, which is not replayed")
    if group.has_unsure_ends:
        caveats.append("for some members, it is not known whether they left or their sessions expired")
    if recording.untouched:
        caveats.append(
            f"{many(recording.untouched, 'rebalance')} did not come from members that start or stop, and would have "
            "happened anyway"
        )
    return tuple(caveats)
