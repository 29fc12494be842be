"""Named tuples as `typing.NamedTuple` makes them, for modules that commands import before they send their first byte:
`typing` and `collections` take as long to import as a quarter of describing a group.

Type checkers are shown `typing`'s own class, as for `kgm.model.enumeration`."""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]  # what `collections.namedtuple` reads fields with

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def annotated(name: str, scope: dict[str, Any]) -> Iterable[str]:
    """The names that the body of a class annotates, in order. scope: what the body defines.

    Raises TypeError where that is not known: from Python 3.14 on only `from __future__ import annotations` writes them
    down when the class is made (PEP 749)."""
    names: dict[str, Any] | None = scope.get("__annotations__")
    if names is None and (scope.get("__annotate_func__") or scope.get("__annotate__")):
        raise TypeError(f"{name}: its module lacks `from __future__ import annotations`")
    return names or ()


class _Maker(type):
    """Makes a tuple with names of each class."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(annotated(name, body))
        defaults = {field: body.pop(field) for field in fields if field in body}
        taken = ", ".join(f"{field}=defaults[{field!r}]" if field in defaults else field for field in fields)
        source = f"lambda cls, {taken}: new(cls, ({''.join(f'{field}, ' for field in fields)}))"
        scope = {"new": tuple.__new__, "defaults": defaults}
        new = eval(source, scope)  # noqa: S307  (source made here from names of attributes)
        new.__name__, new.__qualname__ = "__new__", f"{body['__qualname__']}.__new__"
        methods = {"_make": _make, "_replace": _replace, "__replace__": _replace, "_asdict": _asdict, "__repr__": _repr}
        places = {field: _tuplegetter(place, None) for place, field in enumerate(fields)}
        own = {"__slots__": (), "__new__": new, "__getnewargs__": _values, "__match_args__": fields, "_fields": fields}
        return type(name, (tuple,), {**methods, **own, "_field_defaults": defaults, **body, **places})


class NamedTuple(metaclass=_Maker):
    """A base class."""


@classmethod  # type: ignore[misc]
def _make(cls: Any, values: Iterable[Any]) -> Any:
    made = tuple.__new__(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **changes: Any) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise TypeError(f"Got unexpected field names: {list(changes)!r}")
    return made


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(self)


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
    return f"{self.__class__.__name__}({shown})"
