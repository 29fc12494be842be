"""Enumerations as `enum` makes them, for modules that commands import before they send their first byte: importing
`enum`, and making the class of Kafka's error codes with it, takes as long as a sixth of describing a group.

Type checkers are shown `enum`'s own classes:

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from enum import IntEnum
    else:
        from kgm.model.enumeration import IntEnum

What a class consists of: members by name, `name` and `value`, looking up by value and by name, iteration, order of
definition, copies that are the member itself. There are no aliases, flags, `auto` and `_missing_`."""

from __future__ import annotations

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class _Enumeration(type):
    """Makes the values in the body of a class its members."""

    __members__: dict[str, Any]
    _value2member_map_: dict[Any, Any]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        values = {each: body.pop(each) for each in [*body] if each[0] != "_" and not hasattr(body[each], "__get__")}
        made: Any = super().__new__(cls, name, bases, body)
        names: dict[str, Any] = {}
        members: dict[Any, Any] = {}
        made.__members__, made._value2member_map_ = names, members
        kind = next((each for each in (int, str) if issubclass(made, each)), None)
        for each, value in values.items():
            member = object.__new__(made) if kind is None else kind.__new__(made, value)
            member.name, member.value = each, value
            if members.setdefault(value, member) is not member:
                raise TypeError(f"{name}.{each} is the same as {name}.{members[value].name}")
            names[each] = member
            setattr(made, each, member)
        return made

    def __call__(cls, value: Any) -> Any:
        if value.__class__ is cls:
            return value
        try:
            return cls._value2member_map_[value]
        except (KeyError, TypeError):
            raise ValueError(f"{value!r} is not a valid {cls.__qualname__}") from None

    def __getitem__(cls, name: str) -> Any:
        return cls.__members__[name]

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls.__members__.values())

    def __len__(cls) -> int:
        return len(cls.__members__)

    def __contains__(cls, value: Any) -> bool:
        kind: Any = value.__class__
        return kind is cls or value in cls._value2member_map_

    def __repr__(cls) -> str:
        return f"<enum {cls.__name__!r}>"

    def __bool__(cls) -> bool:
        return True


class Enum(metaclass=_Enumeration):
    """A closed set of values."""

    name: str
    value: Any

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}.{self.name}: {self.value!r}>"

    def __str__(self) -> str:
        return f"{self.__class__.__name__}.{self.name}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__class__, (self.value,)


class IntEnum(int, Enum):
    """A closed set of integers, which are integers."""

    __repr__ = Enum.__repr__
    __reduce_ex__ = Enum.__reduce_ex__
    __str__ = int.__repr__
    __format__ = int.__format__


class StrEnum(str, Enum):  # noqa: SLOT000  (its members have a name)
    """A closed set of strings, which are strings."""

    __repr__ = Enum.__repr__
    __reduce_ex__ = Enum.__reduce_ex__
    __str__ = str.__str__
    __format__ = str.__format__
