"""Who the members are: instance ids that do not do what static membership is for (KIP-345)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from kgm.operations.doctor.case import Case, Finding, some
from kgm.text.sanitize import clean
from kgm.text.wording import many

#: How a name gives itself away as one that the next start will not have again.
_RANDOM: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE), "a UUID"),
    (re.compile(r"-[0-9a-f]{6,10}-[a-z0-9]{5}$"), "the name of a pod of a Deployment"),
    (re.compile(r"(?<![0-9a-z])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{12,}(?![0-9a-z])", re.IGNORECASE),
     "a hash or the id of a container"),
    (re.compile(r"(?<!\d)1[5-9]\d{8}(\d{3})?(?!\d)"), "a time"),
)  # fmt: skip


def random_instance_ids(case: Case) -> Iterator[Finding]:
    """A name that changes with each start is worse than none: the old seat waits for its session to end."""
    found = [(one.identity, kind) for one in case.static if (kind := looks_random(one.identity)) is not None]
    if found:
        yield case.finding(
            "random-instance-id", "warning",
            f"{many(len(found), 'group.instance.id')} will hardly be the same after a restart: each start takes a new "
            "seat, and the old one keeps its partitions until its session ends",
            *(f"{name} looks like {kind}" for name, kind in found[:5]),
            about=[name for name, _ in found], run=("kgm", "describe", case.group.group_id, "-o", "wide"),
        )  # fmt: skip


def looks_random(name: str) -> str | None:
    """What a name looks like, if it is not one that somebody gave."""
    return next((kind for form, kind in _RANDOM if form.search(name)), None)


def mixed_membership(case: Case) -> Iterator[Finding]:
    """Static and dynamic members in one group: a restart of the latter moves partitions of the former."""
    if case.static and case.dynamic:
        yield case.finding(
            "mixed-membership", "warning",
            f"only {len(case.static)} of {len(case.group.members)} members are static: whenever one of the others "
            "restarts, everybody rebalances",
            f"dynamic: {some(one.member_id for one in case.dynamic)}",
            about=[one.member_id for one in case.dynamic],
            run=("kgm", "simulate-bounce", case.group.group_id, "--all", "--rolling", "--compare"),
        )  # fmt: skip


def confusable_instance_ids(case: Case) -> Iterator[Finding]:
    """Names that a person takes for one another."""
    alike: dict[str, list[str]] = {}
    for one in case.static:
        plain = "".join(char for char in unicodedata.normalize("NFKC", one.identity) if char.isprintable())
        alike.setdefault("".join(plain.split()).casefold(), []).append(one.identity)
    for names in alike.values():
        if len(names) > 1:
            yield case.finding(
                "confusable-instance-ids", "warning", f"{len(names)} members have ids that differ in next to nothing",
                *(repr(name) for name in names[:5]), about=names,
                run=("kgm", "describe", case.group.group_id, "-o", "json"),
            )  # fmt: skip


def hidden_characters(case: Case) -> Iterator[Finding]:
    """Characters that a terminal hides or acts on."""
    ids = [case.group.group_id, *(m.identity for m in case.group.members), *(m.client_id for m in case.group.members)]
    odd = list(dict.fromkeys(name for name in ids if clean(name) != name))
    if odd:
        yield case.finding(
            "hidden-characters", "warning", "ids hold characters that are not seen, or that a terminal acts on",
            *(clean(name) for name in odd[:5]), about=odd, run=("kgm", "describe", case.group.group_id, "-o", "json"),
        )  # fmt: skip


CHECKS: Final = (random_instance_ids, mixed_membership, confusable_instance_ids, hidden_characters)
