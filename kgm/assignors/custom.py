"""Assignors of somebody's own, found by the entry points of what is installed beside kgm.

A package that has one says so in its `pyproject.toml`; the name is the one that its consumers put into JoinGroup:

    [project.entry-points."kgm.assignors"]
    our-assignor = "our_package.assignor:OurAssignor"

From then on `kgm assign`, `kgm simulate-bounce --assignor our-assignor` and predictions for live groups that use it run
`OurAssignor`. Nobody looks for entry points before a name comes up that is not built in, and no answer is believed
before it has been checked.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol, runtime_checkable

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.model.errors import KgmError

ENTRY_POINTS: Final = "kgm.assignors"


@runtime_checkable
class Assignor(Protocol):
    """What an entry point of the group `kgm.assignors` leads to: a class like this one, or a function that makes one.
    It is called without arguments, once in a process.

    The answer must hang on the group alone, not on time, chance or the outside world. What a member writes into its
    user data is not told: an assignor whose members say there what they own sees what their subscriptions say.

        class OneTakesAll:
            is_cooperative = False

            def assign(self, group):
                first = min(member.member_id for member in group.members)
                return {first: {topic.name: range(topic.partitions) for topic in group.topics}}
    """

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they own while the group rebalances (KIP-429). Such an assignor leaves out, for
        one round, what another member must give up first."""

    def assign(self, group: GroupSpec) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """Partitions by member id and topic, in any order; who gets nothing may be left out.

        Every partition of every topic that somebody subscribes to has to go to one of its subscribers. Only a
        cooperative assignor may hold back partitions, those that somebody claims to own."""


class AssignorError(KgmError):
    """An installed assignor cannot be loaded, fails, or gives an answer that cannot be."""

    code = "ASSIGNOR"


@lru_cache(maxsize=64)
def find(name: str) -> Assignor | None:
    """The installed assignor of that name; None when there is none.

    Raises AssignorError for one that cannot be loaded, or when two packages bring one of that name."""
    from importlib.metadata import entry_points

    found = {(entry.value, _package(entry.dist)): entry for entry in entry_points(group=ENTRY_POINTS, name=name)}
    if not found:
        return None
    if len(found) > 1:
        packages = " and ".join(sorted(f"{value} ({package})" for value, package in found))
        raise AssignorError(f"two assignors are called {name!r}: {packages}", hint="uninstall one of them")
    [((value, package), entry)] = found.items()
    where = (f"{value}, installed by {package}",)
    try:
        assignor = entry.load()()
    except Exception as error:
        raise AssignorError(f"assignor {name!r} cannot be loaded: {_told(error)}", facts=where) from error
    if not isinstance(assignor, Assignor):
        raise AssignorError(f"assignor {name!r} has no assign() and is_cooperative", facts=where)
    return assignor


def installed() -> tuple[str, ...]:
    """The names of all assignors that are installed beside kgm, loaded or not."""
    from importlib.metadata import entry_points

    return tuple(sorted({entry.name for entry in entry_points(group=ENTRY_POINTS)}))


def run(name: str, assignor: Assignor, group: GroupSpec) -> Assigned:
    """The assignor's answer, checked, and in the form of the built-in ones. Raises AssignorError."""
    try:
        given = assignor.assign(group)
        is_cooperative = bool(assignor.is_cooperative)
    except Exception as error:
        raise AssignorError(f"assignor {name!r} fails: {_told(error)}") from error
    try:
        return _checked(given, group, may_hold_back=is_cooperative)
    except _WrongAnswerError as error:
        raise AssignorError(
            f"assignor {name!r} gives an answer that cannot be: {error}",
            hint="its answer is not used; tell those who maintain it",
        ) from error


class _WrongAnswerError(Exception):
    pass


def _checked(given: object, group: GroupSpec, *, may_hold_back: bool) -> Assigned:
    sizes = {topic.name: topic.partitions for topic in group.topics}
    rows = _rows(given, {member.member_id for member in group.members})
    owner: dict[tuple[str, int], str] = {}
    answer: Assigned = {}
    for member in group.members:
        answer[member.member_id] = row = {}
        for topic, partitions in rows.get(member.member_id, {}).items():
            if topic not in member.topics:
                raise _WrongAnswerError(f"{member.member_id} gets {topic!r}, which it does not subscribe to")
            for partition in partitions:
                if type(partition) is not int or not 0 <= partition < sizes.get(topic, 0):
                    raise _WrongAnswerError(f"{member.member_id} gets {topic}-{partition}, which does not exist")
                other = owner.setdefault((topic, partition), member.member_id)
                if other != member.member_id:
                    raise _WrongAnswerError(f"{topic}-{partition} goes to {other} and to {member.member_id}")
            if len(set(partitions)) != len(partitions):
                raise _WrongAnswerError(f"{member.member_id} gets a partition of {topic} twice")
            if partitions:
                row[topic] = tuple(sorted(partitions))
    claimed: set[tuple[str, int]] = set()
    if may_hold_back:
        claimed.update((t, p) for member in group.members for t, ps in member.owned.items() for p in ps)
    for topic in sorted({name for member in group.members for name in member.topics} & sizes.keys()):
        for partition in range(sizes[topic]):
            if (topic, partition) not in owner and (topic, partition) not in claimed:
                raise _WrongAnswerError(f"nobody gets {topic}-{partition}")
    return answer


def _rows(given: object, member_ids: set[str]) -> dict[str, dict[str, list[int]]]:
    """The answer as dictionaries and lists, whatever kinds of mappings and sequences it is made of."""
    try:
        rows = {m: {t: list(ps) for t, ps in row.items()} for m, row in given.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError) as error:
        raise _WrongAnswerError(f"no partitions by member id and topic ({_told(error)})") from error
    if unknown := rows.keys() - member_ids:
        raise _WrongAnswerError(f"{min(map(str, unknown))} is no member of the group")
    return rows


def _package(distribution: object) -> str:
    name = getattr(distribution, "name", None)
    return "an unknown package" if name is None else f"{name} {getattr(distribution, 'version', '')}".strip()


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
