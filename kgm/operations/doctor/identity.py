"""Who the members are: instance ids that defeat the purpose of static membership (KIP-345)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.doctor.group_facts import GroupFacts
from kgm.text.sanitize import clean
from kgm.text.wording import many, some

#: Patterns of names that change with the next start.
_GENERATED: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE), "a UUID"),
    (re.compile(r"-[0-9a-f]{6,10}-[a-z0-9]{5}$"), "the name of a Deployment's pod"),
    (re.compile(r"(?<![0-9a-z])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{12,}(?![0-9a-z])", re.IGNORECASE),
     "a hash or a container id"),
    (re.compile(r"(?<!\d)1[5-9]\d{8}(\d{3})?(?!\d)"), "a timestamp"),
)  # fmt: skip


def random_instance_ids(facts: GroupFacts) -> Iterator[Finding]:
    """Instance ids that change with every start, so the old member stays until its session expires."""
    ids = [(one.identity, kind) for one in facts.static if (kind := generated_form(one.identity)) is not None]
    if ids:
        yield facts.finding(
            "random-instance-id", Severity.WARNING,
            f"{many(len(ids), 'group.instance.id')} {'looks' if len(ids) == 1 else 'look'} generated: each restart "
            "joins as a new member, and the old one keeps its partitions until its session expires",
            *(f"{name} looks like {kind}" for name, kind in ids[:5]),
            about=[name for name, _ in ids], run=("describe", "-o", "wide"),
        )  # fmt: skip


def generated_form(name: str) -> str | None:
    """What a generated-looking name looks like ("a UUID"); None for other names."""
    return next((kind for form, kind in _GENERATED if form.search(name)), None)


def mixed_membership(facts: GroupFacts) -> Iterator[Finding]:
    """Static and dynamic members in one group: restarts of dynamic members move partitions of static ones."""
    if facts.static and facts.dynamic:
        costs = (
            "makes members give up and take over partitions, one after another"
            if facts.group.type == "consumer"
            else "rebalances the whole group"
        )
        yield facts.finding(
            "mixed-membership", Severity.WARNING,
            f"only {len(facts.static)} of {len(facts.group.members)} members are static: every restart of a dynamic "
            f"member {costs}",
            f"dynamic: {some(one.member_id for one in facts.dynamic)}",
            about=[one.member_id for one in facts.dynamic],
            run=("simulate-bounce", "--all", "--rolling", "--compare"),
        )  # fmt: skip


def confusable_instance_ids(facts: GroupFacts) -> Iterator[Finding]:
    """Instance ids that people would confuse."""
    alike: dict[str, list[str]] = {}
    for one in facts.static:
        plain = "".join(char for char in unicodedata.normalize("NFKC", one.identity) if char.isprintable())
        alike.setdefault("".join(plain.split()).casefold(), []).append(one.identity)
    for names in alike.values():
        if len(names) > 1:
            yield facts.finding(
                "confusable-instance-ids", Severity.WARNING, f"{len(names)} members have ids that are easily confused",
                *(repr(name) for name in names[:5]), about=names, run=("describe", "-o", "json"),
            )  # fmt: skip


def hidden_characters(facts: GroupFacts) -> Iterator[Finding]:
    """Ids with characters that a terminal hides or interprets."""
    members = facts.group.members
    ids = [facts.group.group_id, *(m.identity for m in members), *(m.client_id for m in members)]
    odd = list(dict.fromkeys(name for name in ids if clean(name) != name))
    if odd:
        yield facts.finding(
            "hidden-characters", Severity.WARNING,
            "ids contain characters that are invisible or that a terminal interprets",
            *(clean(name) for name in odd[:5]), about=odd, run=("describe", "-o", "json"),
        )  # fmt: skip


CHECKS: Final = (random_instance_ids, mixed_membership, confusable_instance_ids, hidden_characters)
