"""docs/clients.md, made from the table of client libraries and from what was recorded of them."""

from __future__ import annotations

import pathlib

from kgm.assignors import has_assignor
from kgm.clients.table import CLIENTS, ClientTraits, SubscriptionForm
from tests.clients.recorded_groups import RECORDED

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "clients.md"
JAVA_VERSION = "4.3.0"
USUAL = ("range", "roundrobin", "sticky", "cooperative-sticky")
_BEFORE = """\
# Client libraries

The assignments of a classic group are computed by one of its members, the leader, and libraries differ: in what they
send, in what their assignors of the same name return, and in what a static member does when it is closed. kgm simulates
the consumers of **Java** and **librdkafka** as they are. It simulates those of the other libraries as far as it knows
them, each with its own assignors; a prediction is exact only where the answer does not depend on how they behave.

`python bench/scenes.py` draws scenes of all of them at random, and compares predictions with what a real broker and real
clients then do.

## Which library a member runs on

`kgm describe -o json` has `client_library` for each member: `name`, `confidence`, `evidence`, and the `candidates` that
the evidence leaves. `-o wide` has it in the column CLIENT. `leader_library` of a classic group is that of the leader that
wrote its assignments.

- `certain`: what the member sent can only come from this library, or an operator has stated it.
- `likely`: several libraries send that, and something weaker leaves one of them: what the leader wrote, default timeouts
  (from the group's record, which takes READ on `__consumer_offsets`), a default client id.
- `unknown`: several are left, or none that kgm knows; `name` is null.

A client id is chosen by whoever configures the client. It never overrides what a member sent. With an assignor that none
of these libraries has nothing is `certain`.

## Whose assignor runs

The assignor of the leader's library: in predictions, previews of a removal, and in the check whether the present
assignment is explained. If the evidence leaves several libraries, the ranges have what each of them would do. The
sticky assignors of franz-go and sarama follow the order of Go maps, which differs from run to run: where it decides, each
draw takes another order, the answer is never exact, and a caveat says so. What a restart moves is random with
platformatic: its roundrobin takes members in the order of a hash map of their ids, and a new process has a random one.
In 59 scenes of it 27 moved the least of the range, 15 the most, and 17 something between. Of an assignor that kgm does
not have, what moves is a range from the partitions that must move to all of them. `kgm assign` takes topics and members
in the order of names.

The assignors are compared with the libraries themselves (`tests/assignors/libraries`): 50 recorded answers of each always,
500 others with `--long`. `kgm assign --library NAME` runs them.

## When a prediction is exact

1. For members that certainly run on Java or librdkafka.
2. Otherwise where the library does not matter: static members restart within their session, the group uses range or
   roundrobin, and their library does not leave when it is closed.
3. Never where the assignor that a group names does not explain the assignment that it has, as the leader's library has
   it: then it is another one of that name, and what a rebalance moves is not known. Nor for an assignor that kgm does not
   know: the numbers of rebalances are shown, with ranges for who gets what.
4. With a cooperative assignor, where each member that has partitions names some that it has kept (`names_owned` in JSON),
   or its library keeps them in any case. Otherwise an eager assignor may stand beside it in the member's settings, as in an
   upgrade to it: then a Java consumer gives up all partitions in each rebalance. Who came last has none to name either: the
   ranges have both, and `--assignor cooperative-sticky` says that there is no other.
5. Never in a group whose members of several libraries share a sticky assignor: each reads in its own way what the others
   claim, so that what moves is a range up to all partitions.
6. In consumer groups (KIP-848) the broker assigns. What depends on the library there is whether a closed static member
   leaves, and what a process does that the broker refuses (UNRELEASED_INSTANCE_ID): Java and librdkafka end.

A member of a library that kgm does not know is played as Java's, and the ranges have what each of the others does.

`--library NAME` and `--assignor NAME` of `kgm simulate-bounce`, `kgm plan`, `kgm drain`, `kgm rollout` and
`kgm remove-members` state what you know.

## What each library sends and does
"""
_AFTER = """
Subscriptions are (version, user data); of version 3 an empty rack is another one than none (null). A *silent restart* is
that of a static leader which is told to keep the assignment, and causes no rebalance.

Another library: [teach kgm a client library](new-client-library.md).
"""


def page() -> str:
    """The text of the page."""
    return _BEFORE + "".join(_section(traits) for traits in CLIENTS.values()) + _AFTER


def _section(traits: ClientTraits) -> str:
    versions = sorted({group["version"] for group in RECORDED if group["library"] == traits.name}) or [JAVA_VERSION]
    subscriptions = dict.fromkeys(_form(form) for form in traits.subscriptions)
    rows = [
        ("versions that were recorded", ", ".join(versions)),
        ("subscription", "; ".join(subscriptions)),
        ("assignment, of a leader", "; ".join(f"version {version}, {kind}" for version, kind in traits.assignments)),
        (
            "session and rebalance timeout",
            f"{traits.session_timeout_ms // 1000} s, {traits.rebalance_timeout_ms // 1000} s",
        ),
        ("member id (KIP-848)", " or ".join(traits.member_ids) or "-"),
        ("assignors that kgm has", ", ".join(name for name in USUAL if has_assignor(traits.name, name))),
        ("a static member that is closed", _close(traits)),
        ("silent restart of a leader", ", ".join(traits.silent_leaders) or "-"),
    ]
    text = f"\n### {traits.name}\n\n| | |\n|---|---|\n"
    text += "".join(f"| {name} | {value} |\n" for name, value in rows)
    if traits.differences:
        text += "\n" + "".join(f"- {each}\n" for each in traits.differences)
    return text


def _close(traits: ClientTraits) -> str:
    if not traits.has_static_members:
        return "it has no static members"
    return "leaves" if traits.leaves_when_static else "does not leave"


def _form(form: SubscriptionForm) -> str:
    versions = f"version {form.versions[0]}"
    if len(form.versions) > 1:
        versions = f"versions {form.versions[0]} to {form.versions[-1]}"
    parts = [versions, "user data " + " or ".join(form.user_data)]
    if 3 in form.versions:
        parts.append("no rack is null" if form.no_rack is None else "no rack is empty")
    if not form.says_owned:
        parts.append("no owned partitions")
    return ", ".join(parts) + (f" ({', '.join(form.assignors)})" if form.assignors else "")
