"""Whether a group would refuse a consumer with given settings. A refused consumer appears in no description; only its
own log shows the reason. So its settings have to be passed in with `--command-config` and `-X`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.text.wording import some

_STRATEGY: Final = "partition.assignment.strategy"
_INSTANCE: Final = "group.instance.id"
_PROTOCOL: Final = "group.protocol"
#: Java class names to the assignor names that groups use.
_JAVA_CLASSES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def refused_consumer(facts: GroupFacts) -> Iterator[Finding]:
    """What happens when a consumer with the given settings joins."""
    settings, group = facts.consumer_settings, facts.group
    offered, is_classic = _assignors(settings), settings.get(_PROTOCOL, "classic").lower() == "classic"
    is_known = is_classic and group.type == "classic" and group.members and group.assignor and offered
    if is_known and group.assignor not in offered:
        yield facts.finding(
            "refused-consumer", Severity.ERROR,
            "a consumer with these settings is refused with INCONSISTENT_GROUP_PROTOCOL",
            f"the group uses {group.assignor}, and {_STRATEGY} has {some(offered)}",
            "all members must have one assignor in common; librdkafka takes no mix of cooperative-sticky and others",
            run=("describe", "-o", "wide"),
        )  # fmt: skip
    name = settings.get(_INSTANCE)
    owner = next((one for one in facts.static if one.identity == name), None)
    if owner is not None and owner.status != "away":
        is_new = group.type == "consumer" and not is_classic
        yield facts.finding(
            "refused-consumer", Severity.ERROR if is_new else Severity.WARNING,
            f"a consumer with these settings is refused with UNRELEASED_INSTANCE_ID: {_INSTANCE} {name} is taken"
            if is_new
            else f"a consumer with these settings takes {_INSTANCE} {name} over, and the member that has it is fenced",
            f"{owner.member_id} has it ({owner.client_id}, {owner.client_host})",
            about=[owner.identity], run=("describe",),
        )  # fmt: skip


def _assignors(settings: Mapping[str, str]) -> list[str]:
    """The assignors that a consumer with these settings offers, by the names that groups use; empty if not
    configured."""
    words = [word.strip() for word in settings.get(_STRATEGY, "").split(",") if word.strip()]
    return [_JAVA_CLASSES.get(word.rpartition(".")[2], word) for word in words]


CHECKS: Final = (refused_consumer,)
