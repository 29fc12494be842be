"""The bases of the generated message classes: slots, Kafka's defaults, and the table of fields that is compiled."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

#: Stands for "Kafka's default, an empty list" in constructors; never stored.
EMPTY: list[Any] = []
#: Stands for "Kafka's default, an empty struct" in constructors; never stored.
UNSET: Any = object()

Versions = tuple[int, int]


def within(version: int, span: Versions | None) -> bool:
    """Whether a version is one of these; None: there are none."""
    return span is not None and span[0] <= version <= span[1]


class Field(NamedTuple):
    """One field of a struct. Versions are inclusive; a default of () stands for an empty array or struct."""

    name: str
    kind: str
    versions: Versions | None
    nullable: Versions | None
    default: Any
    ignorable: bool
    tag: int | None
    tagged: Versions | None


class Struct:
    """A struct of Kafka's protocol. Fields have Kafka's names in snake_case; their types are in the annotations.

    unknown_tags: tagged fields from a newer Kafka as (tag, bytes), so that nothing is lost on re-encoding (KIP-482)."""

    __slots__ = ("unknown_tags",)
    FIELDS: ClassVar[tuple[Any, ...]] = ()
    unknown_tags: tuple[tuple[int, bytes], ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self.__class__) or other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, row[0]) == getattr(other, row[0]) for row in self.FIELDS) and (
            self.unknown_tags == other.unknown_tags
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{row[0]}={getattr(self, row[0])!r}" for row in self.FIELDS)
        return f"{self.__class__.__name__}({shown})"


class Message(Struct):
    """A top-level message. `API_KEY` is the API key of a request, or the record type of a `__consumer_offsets`
    record."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767
    STRUCTS: ClassVar[dict[str, type[Struct]]] = {}
