"""How a prediction depends on client libraries whose consumers kgm does not play, although it may have their assignors,
and on what the present leaves open (`present`): if it depends on them it is not exact, and its ranges include the known
differences in their behavior, and what may move."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kgm.assignors import NAMES, has_assignor
from kgm.clients.table import CLIENTS, LIBRARIES, STATELESS
from kgm.model.assignment import count
from kgm.model.client_library import FRANZ_GO, JAVA, KAFKA_PYTHON, LIBRDKAFKA, PLAYED, ClientLibrary
from kgm.model.snapshot import GroupSnapshot
from kgm.simulation.plan.bounce_plan import GroupProtocol, Plan, Stop
from kgm.simulation.plan.client_library import STICKY, Library
from kgm.simulation.plan.starting_group import StartingGroup, StartingMember
from kgm.simulation.plan.votes import other_lists
from kgm.simulation.report.prediction import Ranges
from kgm.simulation.report.present import present_doubts
from kgm.simulation.report.self_check import unexplained
from kgm.text.names import in_order
from kgm.text.wording import many, some

#: Libraries whose static leader has been observed to rejoin after a restart, unless the assignor is one of their
#: `silent_leaders`.
_REJOINING = (FRANZ_GO, KAFKA_PYTHON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """depends: whether the result depends on something that kgm is not sure about. misfit: why the assignor is not the
    one that kgm knows; None if it is, or if nothing needs an assignment. more_rounds: how many more rounds than with
    Java each rebalance may take. rejoins: how many rebalances there may be where Java has none. total: how many
    partitions may move. freed: how many must move. late_returns: how many processes may join later than the draws end,
    each with another rebalance. may_be_full: whether the group may refuse processes that start (`may_lack_room`)."""

    depends: bool = False
    misfit: str | None = None
    moves_are_open: bool = False
    more_rounds: int = 0
    rejoins: int = 0
    total: int = 0
    freed: int = 0
    late_returns: int = 0
    may_be_full: bool = False
    caveats: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        is_open = self.depends or self.misfit is not None or self.moves_are_open or self.may_be_full
        return not (is_open or self.late_returns)

    def widened(self, ranges: Ranges) -> Ranges:
        """The ranges, widened by what is known about the libraries, and by late returns."""
        generations, rebalances = ranges.generations, ranges.rebalances
        more = max(self.more_rounds * rebalances.max, self.rejoins + self.late_returns)
        generations = replace(generations, max=generations.max + more)
        rebalances = replace(rebalances, max=rebalances.max + more)
        moved, handovers = ranges.moved_partitions, ranges.handovers
        if (self.moves_are_open or self.late_returns) and rebalances.max:
            moved = replace(moved, min=min(moved.min, self.freed), max=max(moved.max, self.total))
            least = min(handovers.min, self.freed) if self.moves_are_open else handovers.min
            handovers = replace(handovers, min=least, max=max(handovers.max, self.total * rebalances.max))
        return replace(
            ranges, generations=generations, rebalances=rebalances, moved_partitions=moved, handovers=handovers
        )


def doubts_of(
    snapshot: GroupSnapshot, group: StartingGroup, plan: Plan, *, has_rebalances: bool,
    custom_default: str | None = None,
) -> Doubts:  # fmt: skip
    """How the draws depend on libraries that kgm does not play, and on whether it knows the assignor. has_rebalances:
    whether any has a rebalance or another generation. custom_default: the broker's default assignor, if the group may
    use it and kgm does not know it."""
    unsure = [member for member in group.members if not is_played(member.client, group.assignor)]
    named = [member for member in unsure if member.identity in plan.named]
    is_classic = group.protocol is GroupProtocol.CLASSIC
    if is_classic:
        depends = bool(unsure) and not _is_settled(snapshot, group, plan, named, has_rebalances=has_rebalances)
    else:
        depends = any(_returns_otherwise(member, plan) for member in named)
    may_take_more = is_classic and depends
    more_rounds = _more_rounds(group, unsure) if may_take_more and has_rebalances else 0
    may_rejoin = may_take_more and _may_rejoin(group, named)
    are_mixed = is_classic and _are_mixed(snapshot, group)
    claims_are_open = are_mixed and (group.assignor == STICKY or (may_rejoin and group.assignor not in STATELESS))
    misfit = _misfit(snapshot, group, plan) if has_rebalances or may_rejoin else None
    others_assign = is_classic and _assigns_otherwise(snapshot, group, unsure)
    unknown = group.unknown_assignor or custom_default
    knows_assignor = unknown is None and misfit is None and not others_assign and not group.other_assignors
    texts = [text for text in (misfit, _of_lists(group) if has_rebalances else None) if text]
    if unknown is not None and has_rebalances:
        texts.append(_of_unknown_assignor(unknown, is_classic=is_classic and custom_default is None))
    if may_give_up := group.may_forget and group.assignor != STICKY and has_rebalances:
        texts.append(_of_nameless(group))
    writer = snapshot.leader_library
    disguised = is_classic and has_rebalances and _is_disguised(snapshot)
    if disguised and writer is not None:
        texts.append(
            f"no member seems to use the library that wrote the assignments ({writer.text}): one of "
            "them may use another library than its subscription suggests"
        )
    is_foreign = is_classic and has_rebalances and _is_foreign(writer, group)
    if is_foreign and writer is not None:
        texts.append(
            f"{'; '.join(writer.evidence)}: the leader's {group.assignor} may be a custom one, and what moves is not "
            "known"
        )
    if claims_are_open and (has_rebalances or may_rejoin):
        texts.append(
            f"members of several libraries share {group.assignor}: a leader of one may misread what members of "
            "another claim, so what they keep is not known"
        )
    present = present_doubts(snapshot, group, plan, has_rebalances=has_rebalances)
    texts += present.caveats
    texts += _caveats(unsure, group.assignor if is_classic else None) if depends else []
    return Doubts(
        depends=depends or disguised or is_foreign or may_give_up,
        misfit=misfit,
        moves_are_open=present.moves_are_open
        or is_foreign
        or (
            (has_rebalances or may_rejoin)
            and (not knows_assignor or claims_are_open or (may_rejoin and _may_reassign(group, named)))
        ),
        more_rounds=more_rounds,
        rejoins=present.more_rebalances + (0 if not may_rejoin else 2 if claims_are_open else 1),
        total=_total(snapshot, group),
        freed=_freed(group, plan),
        caveats=tuple(texts),
    )


def _total(snapshot: GroupSnapshot, group: StartingGroup) -> int:
    """Partitions that members have, or may get."""
    similar = sum(topic.partitions for topic in snapshot.similar_topics)
    return max(sum(group.topics.values()), sum(count(member.owned) for member in group.members)) + similar


def _of_unknown_assignor(name: str, *, is_classic: bool) -> str:
    whose, kind = ("", ", whether it is cooperative or not") if is_classic else ("broker's ", "")
    return (
        f"kgm does not know the {whose}assignor {name}: the numbers of rebalances hold for it{kind}; "
        "who gets what, and so what moves, is not known (--assignor)"
    )


def _of_lists(group: StartingGroup) -> str | None:
    if not group.other_assignors:
        return None
    return other_lists(group.unknown_assignor or group.assignor, group.other_assignors)


def _of_nameless(group: StartingGroup) -> str:
    nameless = in_order(member.identity for member in group.members if member.is_nameless)
    return (
        f"{some(nameless)}: no partitions are named as kept in a rebalance; if an eager assignor is configured "
        f"along with {group.assignor}, as in an upgrade, each rebalance takes all partitions of these members, "
        f"and the ranges include that (--assignor {group.assignor} if there is none)"
    )


def _is_disguised(snapshot: GroupSnapshot) -> bool:
    """Whether the assignments are not in the form that any member's library writes: they may come from a leader that
    has been replaced, or a member only looks like another library."""
    leader = snapshot.leader_library
    clients = [member.client_library for member in snapshot.members if member.client_library is not None]
    names = {name for client in clients for name in client.candidates}
    return leader is not None and bool(leader.candidates and names) and not names & {*leader.candidates}


def _is_foreign(writer: ClientLibrary | None, group: StartingGroup) -> bool:
    """Whether the assignments of one of Kafka's assignors are in a form that no library known to kgm writes."""
    is_builtin = group.unknown_assignor is None and group.assignor in NAMES
    return is_builtin and writer is not None and bool(writer.evidence) and not writer.candidates


def is_played(client: ClientLibrary, assignor: str) -> bool:
    """Whether the client is certain to use a library whose consumers kgm plays. One that is likely Java's counts if the
    other libraries that it may be do the same with this assignor."""
    names = client.candidates or (client.name,)
    others = [name for name in names if name not in PLAYED]
    if not others:
        return True
    return client.name == JAVA and all(name in CLIENTS and assignor in CLIENTS[name].like_java for name in others)


def _returns_otherwise(member: StartingMember, plan: Plan) -> bool:
    """Whether a static member of a consumer group may behave differently from Java's when it is closed, or refused
    because it was killed. The broker assigns, so libraries differ in nothing else."""
    names = member.client.candidates
    traits = [CLIENTS[name] for name in names if name in CLIENTS]
    is_known = bool(names) and len(traits) == len(names)
    returns = member.identity in plan.bounce
    if plan.stop is Stop.CLEAN and (not is_known or any(one.leaves_when_static for one in traits)):
        return member.group_instance_id is not None
    return member.group_instance_id is not None and returns and not {*names} <= PLAYED


def _is_settled(
    snapshot: GroupSnapshot, group: StartingGroup, plan: Plan, named: Sequence[StartingMember], *, has_rebalances: bool
) -> bool:
    """Whether nothing depends on the library: static members restart within their session, say nothing when they are
    closed, and the group assigns nothing, or each that may lead it would assign the same again."""
    is_stateless = group.unknown_assignor is None and group.assignor in STATELESS
    if has_rebalances or (named and not is_stateless):
        return False
    return all(_restarts_silently(member, group, plan, leader=snapshot.leader) for member in named)


def _restarts_silently(member: StartingMember, group: StartingGroup, plan: Plan, *, leader: str | None) -> bool:
    client = member.client
    traits = [CLIENTS[name] for name in client.candidates if name in CLIENTS]
    # It is not known whether a library that kgm does not know leaves the group.
    if plan.stop is Stop.CLEAN and (not traits or any(one.leaves_when_static for one in traits)):
        return False
    is_follower = leader is not None and leader != member.member_id
    return is_follower or (bool(traits) and all(group.assignor in one.silent_leaders for one in traits))


def _more_rounds(group: StartingGroup, unsure: Sequence[StartingMember]) -> int:
    """How many more rounds than with Java a rebalance may take with these libraries."""
    names = {name for member in unsure for name in member.possible_libraries}
    return max((CLIENTS[name].more_rounds.get(group.assignor, 0) for name in names), default=0)


def _may_rejoin(group: StartingGroup, named: Sequence[StartingMember]) -> bool:
    """Whether a static leader that returns may rejoin although it is told to keep the assignment."""
    returning = {name for one in named if one.group_instance_id is not None for name in one.possible_libraries}
    return any(name in returning and group.assignor not in CLIENTS[name].silent_leaders for name in _REJOINING)


def _may_reassign(group: StartingGroup, named: Sequence[StartingMember]) -> bool:
    """Whether the rejoin of a leader may move partitions: franz-go members claim nothing with sticky, and franz-go
    takes topics in an order that differs from run to run. Observed with two members that had 13 and 5 partitions: 10
    moved."""
    is_franz_go = any(FRANZ_GO in one.possible_libraries for one in named if one.group_instance_id is not None)
    return group.assignor == STICKY and len(group.topics) > 1 and is_franz_go


def _are_mixed(snapshot: GroupSnapshot, group: StartingGroup) -> bool:
    """Whether there is no library known to kgm that all members, and the leader, may run on."""
    seen = [{*member.client.candidates} for member in group.members if member.client.candidates]
    leader = snapshot.leader_library
    if leader is not None and leader.candidates:
        seen.append({*leader.candidates})
    return bool(seen) and not set.intersection(*seen)


def _misfit(snapshot: GroupSnapshot, group: StartingGroup, plan: Plan) -> str | None:
    what_if = plan.what_if
    is_another = what_if.assignor is not None or group.protocol.value != snapshot.type
    return None if is_another else unexplained(snapshot)


def _assigns_otherwise(snapshot: GroupSnapshot, group: StartingGroup, unsure: Sequence[StartingMember]) -> bool:
    """Whether kgm lacks the assignor of one of the members that may lead the group."""
    names = {name for member in unsure for name in member.client.candidates or (None,)}
    if len(group.topics) > 1 and any(
        name in CLIENTS and group.assignor in CLIENTS[name].varying for name in names if name is not None
    ):
        return True
    if len(unsure) == len(group.members) and snapshot.leader_library is not None and snapshot.leader_library.name:
        names = {snapshot.leader_library.name}
    return any(name != LIBRDKAFKA and not has_assignor(name, group.assignor) for name in names)


def _freed(group: StartingGroup, plan: Plan) -> int:
    """How many partitions move in any case: the partitions of members that do not come back, if other members are
    left."""
    gone = {*plan.scale_in, *plan.remove}
    if len(gone) >= len(group.members) + plan.scale_out:
        return 0
    return sum(len(numbers) for member in group.members if member.identity in gone for numbers in member.owned.values())


def _titled(library: str) -> str:
    return "Java" if library == JAVA else library


def _caveats(unsure: Sequence[StartingMember], assignor: str | None) -> list[str]:
    """assignor: the one of a classic group; None for a consumer group."""
    texts = []
    kinds: dict[tuple[str, str], list[StartingMember]] = {}
    for member in unsure:
        text = member.client.name or " or ".join(member.client.candidates)
        played = Library.JAVA if member.library is None else member.library
        kinds.setdefault((text, played.value), []).append(member)
    for (text, played_as), members in kinds.items():
        who = some(sorted(member.identity for member in members))
        client = members[0].client
        if client.name is None:
            may_be = f" (it may be {text})" if text and len(client.candidates) < len(LIBRARIES) else ""
            how = f"they are simulated as {_titled(played_as)} consumers"
            texts.append(f"the client library of {who} is not known{may_be}: {how}")
            continue
        differs = "".join(f"; {each}" for each in CLIENTS[client.name].differences) if client.name in CLIENTS else ""
        own = assignor is not None and has_assignor(client.name, assignor)
        how = "as far as kgm knows it" if client.name in CLIENTS else "as Java consumers"
        with_it = f" with its {assignor}" if own else ""
        texts.append(f"{many(len(members), 'member')} use {client.name}, simulated {how}{with_it}: {who}{differs}")
    return texts
