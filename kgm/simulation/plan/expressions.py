"""Regular expressions of consumer groups (KIP-848) that need not be played.

The coordinator forgets what an expression matches when its last subscriber is gone. A member that subscribes to it then
has no topics until it is resolved again, at most once in 10 s for a group (`coordinator.consumer.regexes`)."""

from collections.abc import Collection
from dataclasses import replace

from kgm.simulation.plan.bounce_plan import Plan
from kgm.simulation.plan.starting_group import StartingGroup


def may_be_dropped(group: StartingGroup, plan: Plan) -> bool:
    """Whether all members with one of the expressions may be gone at the same time."""
    gone = {*plan.scale_in, *plan.remove}
    # A member that is refused stays away for longer than its batch.
    batches = plan.batches() if plan.retry_every_ms is None else (plan.bounce,)
    absent = [gone.union(batch) for batch in batches] or [gone]
    return any(_loses_all(group, regex, names) for regex in group.regexes for names in absent)


def _loses_all(group: StartingGroup, regex: str, absent: Collection[str]) -> bool:
    return all(member.identity in absent for member in group.members if member.regex == regex)


def without_lasting_expressions(group: StartingGroup, plan: Plan) -> StartingGroup:
    """The group with topic names in place of expressions, which can be played in bulk, if the broker treats both the
    same: no expression is dropped, and members subscribe to the same in its view, or not, either way. Otherwise, the
    group as it is."""
    if not group.regexes or may_be_dropped(group, plan):
        return group
    is_one = len({member.subscription for member in group.members}) == 1 and not group.members[0].named_topics
    if is_one != (len({frozenset(member.topics) for member in group.members}) == 1):
        return group
    return replace(group, members=tuple(replace(member, regex=None, named_topics=()) for member in group.members))
