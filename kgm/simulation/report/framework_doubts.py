"""Where a prediction depends on what no broker shows: Kafka Streams rebalances on its own, and which library wrote an
assignment decides whether its group can migrate."""

from dataclasses import dataclass, replace

from kgm.frameworks.connect import sink_connector
from kgm.frameworks.streams import NEWEST, in_order
from kgm.frameworks.task_copies import freed_tasks
from kgm.model.snapshot import GroupSnapshot
from kgm.model.work import STREAMS_ASSIGNOR
from kgm.simulation.plan.bounce_plan import Plan, Stop, units_of
from kgm.simulation.plan.starting_group import StartingGroup
from kgm.simulation.report.prediction import Ranges
from kgm.text.wording import group_command, some

#: Rebalances of one probe: tasks are revoked from their owners, and then assigned to the members that have caught up.
_OF_A_PROBE = 2
_OF_AN_ENDPOINT = 1
#: Of a process that returns and writes a newer version of the metadata: at most 3 were seen (3.1.2 to 4.3.0). It joins
#: as it is, then as the others are, and the tasks that this moves leave their owners first.
_OF_AN_UPGRADE = 3
_SAME_RELEASE = (
    "this holds as long as processes return with the same release of Kafka Streams: one that writes another version of "
    "the assignor's metadata causes rebalances"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkDoubts:
    """more_rebalances: how many there may be in addition to those that are played; up to `total` partitions may move in
    them. is_exact: can be False even if the numbers are not in doubt. caveats: why, and what an exact prediction
    assumes."""

    more_rebalances: int = 0
    total: int = 0
    is_exact: bool = True
    caveats: tuple[str, ...] = ()

    def widened(self, ranges: Ranges) -> Ranges:
        """The ranges, widened by those rebalances."""
        more, moved = self.more_rebalances, self.total if self.more_rebalances else 0
        return replace(
            ranges,
            generations=replace(ranges.generations, max=ranges.generations.max + more),
            rebalances=replace(ranges.rebalances, max=ranges.rebalances.max + more),
            moved_partitions=replace(ranges.moved_partitions, max=max(ranges.moved_partitions.max, moved)),
            handovers=replace(ranges.handovers, max=ranges.handovers.max + moved * more),
        )


def framework_doubts(snapshot: GroupSnapshot, group: StartingGroup, plan: Plan) -> FrameworkDoubts:
    """The doubts about the group; none for a group of consumers whose assignor kgm knows."""
    if snapshot.assignor == STREAMS_ASSIGNOR and snapshot.members:
        doubts = _of_streams(snapshot, plan, sum(group.topics.values()))
        return replace(doubts, caveats=(*doubts.caveats, *_alone(snapshot, plan)))
    sink = sink_connector(snapshot.group_id, [member.client_id for member in snapshot.members])
    if sink is not None:
        text = (
            f"the members are tasks of the sink connector {sink}: in practice a Kafka Connect worker restarts with all "
            "its tasks, which the leader of the workers holds back for a while. Predict the group of the workers "
            "instead, and this group is included"
        )
        return FrameworkDoubts(is_exact=False, caveats=(text,))
    if plan.migrate and group.unknown_assignor is not None and not group.has_user_data:
        text = (
            f"if the assignor {group.unknown_assignor} writes user data into assignments, the broker refuses to "
            "upgrade the group (GROUP_ID_NOT_FOUND, which clients treat as fatal): the snapshot shows none"
        )
        return FrameworkDoubts(is_exact=False, caveats=(text,))
    return FrameworkDoubts()


def _of_streams(snapshot: GroupSnapshot, plan: Plan, total: int) -> FrameworkDoubts:
    of_release = release_doubts(snapshot, plan, total)
    more, texts = of_release.more_rebalances, [*of_release.caveats]
    endpoints = sorted({one.work.user_endpoint for one in snapshot.members if one.work and one.work.user_endpoint})
    if snapshot.is_settled is not True:
        more += _OF_A_PROBE
        texts.insert(0, why_not_settled(snapshot))
    elif endpoints:
        text = (
            "members report an application.server: a process that returns with another one, as a pod with a new "
            f"address does, rejoins immediately, which is one more rebalance. Now: {some(endpoints)}"
        )
        more += _OF_AN_ENDPOINT
        texts.insert(0, text)
    texts += ["this holds as long as the topology of the Kafka Streams application stays the same", *stay_text(plan)]
    return FrameworkDoubts(more_rebalances=more, total=total, is_exact=not more, caveats=tuple(texts))


def release_doubts(snapshot: GroupSnapshot, plan: Plan, total: int) -> FrameworkDoubts:
    """What may be different if processes of a Kafka Streams application of the classic protocol return with another
    release. total: as in `FrameworkDoubts`."""
    if not plan.bounce:
        return FrameworkDoubts()
    works = [one.work for one in snapshot.members if one.work is not None]
    oldest = min((one.metadata_version for one in works if one.metadata_version is not None), default=NEWEST)
    if oldest == NEWEST:
        return FrameworkDoubts(caveats=(_SAME_RELEASE,))
    text = (
        f"members write version {oldest} of the metadata of Kafka Streams' assignor, and there are newer ones: a "
        "process that returns with a newer release, or without upgrade.from, causes up to "
        f"{_OF_AN_UPGRADE} more rebalances, in which tasks move"
    )
    more = _OF_AN_UPGRADE * len(units_of(plan.bounce, plan.units))
    return FrameworkDoubts(more_rebalances=more, total=total, is_exact=False, caveats=(text,))


def stay_text(plan: Plan) -> list[str]:
    """What is assumed of a Kafka Streams application that is closed, or does not happen to one that is killed."""
    if plan.stop is Stop.CRASH and plan.named:
        text = (
            "with exactly-once processing, a killed process leaves its transactions open until the transaction timeout "
            "of its producers has passed: until then, tasks that read what it wrote stand still, those of other "
            "processes among them, although somebody owns their partitions"
        )
        return [text]
    if plan.stop is not Stop.CLEAN or not plan.named:
        return []
    text = (
        "this holds as long as closing the application does not leave the group; with CloseOptions that ask for it, it "
        "does (--stop leave)"
    )
    return [text]


def _alone(snapshot: GroupSnapshot, plan: Plan) -> list[str]:
    """What it costs if the members that are away at the same time do not come back."""
    alone = in_order({task for batch in plan.batches() for task in freed_tasks(snapshot, batch).alone})
    if not alone:
        return []
    text = (
        "should a process stay away for longer than its session, nobody else has a copy of some of its tasks, and "
        f"those with state are restored from their changelogs: {some(alone)}"
    )
    return [text]


def why_not_settled(snapshot: GroupSnapshot) -> str:
    """The reason in words, for an application that may rebalance on its own."""
    then = "what that moves is not known, nor how many more there are until tasks have caught up"
    if snapshot.is_settled is None:
        return (
            "it is not known whether the Kafka Streams application is settled (its members do not report it before "
            f"Kafka 2.6, and old snapshots lack it): if it is not, it rebalances on its own, and {then}"
        )
    when = "" if snapshot.next_rebalance_at is None else f", which is due at {snapshot.next_rebalance_at}"
    wait = group_command("wait", snapshot.group_id, "--for", "settled")
    return (
        f"the Kafka Streams application is not settled: a member starts another rebalance{when} and, if it restarts, "
        f"immediately; {then}. Wait for that to end: {wait}"
    )
