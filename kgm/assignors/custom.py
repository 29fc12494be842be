"""Custom assignors, found through the entry points of packages that are installed alongside kgm.

A package declares an assignor in its `pyproject.toml`, under the name that its consumers send in JoinGroup:

    [project.entry-points."kgm.assignors"]
    our-assignor = "our_package.assignor:OurAssignor"

Then `kgm assign`, `kgm simulate-bounce --assignor our-assignor` and predictions for live groups that use it run
`OurAssignor`. Entry points are looked up only for names that are not built in, and every result is checked.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol, runtime_checkable

from kgm.assignors.contract import Assigned, GroupSpec
from kgm.model.errors import KgmError

ENTRY_POINTS: Final = "kgm.assignors"


@runtime_checkable
class Assignor(Protocol):
    """What an entry point in the group `kgm.assignors` refers to: a class like this one, or a function that returns an
    instance. It is called without arguments, once per process.

    The result must depend only on the group, not on time, chance or the outside world. Members' user data is not
    available: if members report what they own in their user data, the assignor sees only what is in their
    subscriptions.

        class OneTakesAll:
            is_cooperative = False

            def assign(self, group):
                first = min(member.member_id for member in group.members)
                return {first: {topic.name: range(topic.partitions) for topic in group.topics}}
    """

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they own while the group rebalances (KIP-429). Such an assignor leaves out, for one
        rebalance, the partitions that another member must revoke first."""

    def assign(self, group: GroupSpec) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """Partitions by member id and topic, in any order. Members that get nothing may be left out.

        Every partition of every topic that a member subscribes to must be assigned to one of its subscribers. Only a
        cooperative assignor may hold back partitions, and only those that a member claims to own."""


class AssignorError(KgmError):
    """An installed assignor cannot be loaded, fails, or returns an invalid result."""

    code = "ASSIGNOR"


@lru_cache(maxsize=64)
def find(name: str) -> Assignor | None:
    """The installed assignor with this name; None if there is none.

    Raises AssignorError for one that cannot be loaded, or if two packages have one with this name."""
    from importlib.metadata import entry_points

    entries = {(entry.value, _package(entry.dist)): entry for entry in entry_points(group=ENTRY_POINTS, name=name)}
    if not entries:
        return None
    if len(entries) > 1:
        packages = " and ".join(sorted(f"{value} ({package})" for value, package in entries))
        raise AssignorError(f"two assignors are called {name!r}: {packages}", hint="uninstall one of them")
    [((value, package), entry)] = entries.items()
    where = (f"{value}, installed by {package}",)
    try:
        assignor = entry.load()()
    except Exception as error:
        raise AssignorError(f"assignor {name!r} cannot be loaded: {_description(error)}", facts=where) from error
    if not isinstance(assignor, Assignor):
        raise AssignorError(f"assignor {name!r} does not have assign() and is_cooperative", facts=where)
    return assignor


def installed() -> tuple[str, ...]:
    """The names of all assignors that are installed alongside kgm, whether loaded or not."""
    from importlib.metadata import entry_points

    return tuple(sorted({entry.name for entry in entry_points(group=ENTRY_POINTS)}))


def run(name: str, assignor: Assignor, group: GroupSpec) -> Assigned:
    """The assignor's result, checked, in the same form as from built-in assignors. Raises AssignorError."""
    try:
        given = assignor.assign(group)
        is_cooperative = bool(assignor.is_cooperative)
    except Exception as error:
        raise AssignorError(f"assignor {name!r} fails: {_description(error)}") from error
    try:
        return _checked(given, group, may_hold_back=is_cooperative)
    except _InvalidAnswerError as error:
        raise AssignorError(
            f"assignor {name!r} gives an invalid answer: {error}",
            hint="the answer is not used; report it to the maintainer of the assignor",
        ) from error


class _InvalidAnswerError(Exception):
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
                raise _InvalidAnswerError(f"{member.member_id} gets {topic!r}, which it does not subscribe to")
            for partition in partitions:
                if type(partition) is not int or not 0 <= partition < sizes.get(topic, 0):
                    raise _InvalidAnswerError(f"{member.member_id} gets {topic}-{partition}, which does not exist")
                other = owner.setdefault((topic, partition), member.member_id)
                if other != member.member_id:
                    raise _InvalidAnswerError(f"{topic}-{partition} goes to {other} and to {member.member_id}")
            if len(set(partitions)) != len(partitions):
                raise _InvalidAnswerError(f"{member.member_id} gets a partition of {topic} twice")
            if partitions:
                row[topic] = tuple(sorted(partitions))
    claimed: set[tuple[str, int]] = set()
    if may_hold_back:
        claimed.update((t, p) for member in group.members for t, ps in member.owned.items() for p in ps)
    for topic in sorted({name for member in group.members for name in member.topics} & sizes.keys()):
        for partition in range(sizes[topic]):
            if (topic, partition) not in owner and (topic, partition) not in claimed:
                raise _InvalidAnswerError(f"no member gets {topic}-{partition}")
    return answer


def _rows(given: object, member_ids: set[str]) -> dict[str, dict[str, list[int]]]:
    """The result as dictionaries and lists, whatever mappings and sequences it consists of."""
    try:
        rows = {m: {t: list(ps) for t, ps in row.items()} for m, row in given.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError) as error:
        raise _InvalidAnswerError(f"not partitions by member id and topic ({_description(error)})") from error
    if unknown := rows.keys() - member_ids:
        raise _InvalidAnswerError(f"{min(map(str, unknown))} is not a member of the group")
    return rows


def _package(distribution: object) -> str:
    name = getattr(distribution, "name", None)
    return "an unknown package" if name is None else f"{name} {getattr(distribution, 'version', '')}".strip()


def _description(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
