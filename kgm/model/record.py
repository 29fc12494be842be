"""`@record`: frozen classes with slots, as `@dataclass(frozen=True, slots=True, kw_only=True)` makes them, but quicker.

For modules that commands import before they send their first byte: `dataclasses` imports `inspect`, and compiles six
functions for each class; here it is one at most.

`dataclasses.fields`, `replace` and `is_dataclass` take records too."""

from __future__ import annotations

from _operator import attrgetter, ge, gt, le, lt  # as `operator` has them
from types import FunctionType

from kgm.model.named_tuple import annotated
from kgm.model.record_constructors import CONSTRUCTORS

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform, overload

    C = TypeVar("C", bound=type)
    R = TypeVar("R")
else:

    def dataclass_transform(**_: Any) -> Any:
        """For type checkers."""
        return lambda decorator: decorator


_MISSING: Any = object()


class _Factory:
    """A default that is made anew for each instance."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], R]) -> R:
    """A default that is made anew for each instance."""
    made: Any = _Factory(default_factory)
    return made  # type: ignore[no-any-return]


if TYPE_CHECKING:

    @overload
    def record(cls: C, /) -> C: ...
    @overload
    def record(*, kw_only: bool = True, order: bool = False) -> Callable[[C], C]: ...


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, kw_only: bool = True, order: bool = False) -> Any:
    """A decorator. kw_only: the constructor takes no positions; order: instances compare like the tuples of their
    fields."""
    if cls is None:
        return lambda decorated: _made(decorated, kw_only=kw_only, order=order)
    return _made(cls, kw_only=kw_only, order=order)


def replace(instance: R, /, **changes: Any) -> R:
    """A copy with other values. Raises TypeError for what is no field."""
    taken: Any = instance
    cls = taken.__class__
    slots: dict[str, Any] | None = cls.__dict__.get("RECORD_SLOTS")
    if slots is None:
        cls.RECORD_SLOTS = slots = {name: getattr(cls, name) for name in cls.RECORD_FIELDS}
    if not changes.keys() <= slots.keys():
        raise TypeError(f"{cls.__qualname__} has no field {', '.join(sorted(changes.keys() - slots.keys()))}")
    made: Any = object.__new__(cls)
    for name, slot in slots.items():
        slot.__set__(made, changes[name] if name in changes else slot.__get__(taken))
    return made  # type: ignore[no-any-return]


def _made(cls: Any, *, kw_only: bool, order: bool) -> Any:
    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= base.__dict__.get("RECORD_FIELDS", {})
    scope = dict(cls.__dict__)
    own = {name: scope.pop(name, _MISSING) for name in annotated(cls.__qualname__, scope)}
    names = {**inherited, **own}
    get = attrgetter(*names)
    compared = get if len(names) > 1 else lambda instance: (get(instance),)
    scope.pop("__dict__", None)
    scope.pop("__weakref__", None)
    scope |= {
        "__slots__": tuple(name for name in own if name not in inherited),
        "__match_args__": () if kw_only else tuple(names),
        "__qualname__": cls.__qualname__,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__repr__": cls.__dict__.get("__repr__", _repr),
        "__getstate__": _state,
        "__setstate__": _set_state,
        "__dataclass_fields__": _Lazy(),
        "__dataclass_params__": _Lazy(),
        "RECORD_FIELDS": names,
        **_comparisons(compared, order=order),
    }  # fmt: skip
    made = type(cls)(cls.__name__, cls.__bases__, scope)
    made.__init__ = _constructor(made, names, kw_only=kw_only)
    return made


def _constructor(cls: Any, names: dict[str, Any], *, kw_only: bool) -> Any:
    """`__init__`, which stores each value by the slot's descriptor: `__setattr__` refuses."""
    plain = CONSTRUCTORS.get(len(names))
    if plain is None or any(isinstance(default, _Factory) for default in names.values()):
        init = _compiled(cls, names, kw_only=kw_only)
    else:
        defaults = {name: default for name, default in names.items() if default is not _MISSING}
        count = len(names)
        code = plain.__code__.replace(
            co_varnames=("self", *names),
            co_argcount=1 if kw_only else 1 + count,
            co_kwonlyargcount=count if kw_only else 0,
            co_name="__init__",
        )
        init = FunctionType(code, {f"s{place}": getattr(cls, name).__set__ for place, name in enumerate(names, 1)})
        if kw_only:
            init.__kwdefaults__ = defaults
        elif [*names][count - len(defaults) :] == [*defaults]:
            init.__defaults__ = tuple(defaults.values())
        else:
            raise TypeError(f"{cls.__qualname__}: a field without a default follows one that has one")
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def _compiled(cls: Any, names: dict[str, Any], *, kw_only: bool) -> Any:
    """The same for fields that are made anew, and for many."""
    scope: dict[str, Any] = {"Factory": _Factory}
    heads, lines = [], []
    for name, default in names.items():
        scope[f"set_{name}"] = getattr(cls, name).__set__
        head, value = name, name
        if default is not _MISSING:
            scope[f"default_{name}"] = default
            head = f"{name}=default_{name}"
        if isinstance(default, _Factory):
            scope[f"default_{name}"], scope[f"make_{name}"] = default, default.make
            value = f"make_{name}() if {name} is default_{name} else {name}"
        heads.append(head)
        lines.append(f"    set_{name}(self, {value})")
    source = f"def __init__(self, {'*, ' if kw_only else ''}{', '.join(heads)}):\n" + "\n".join(lines)
    exec(source, scope)  # noqa: S102  (source made here from names of attributes)
    return scope["__init__"]


def _comparisons(get: Callable[[Any], Any], *, order: bool) -> dict[str, Any]:
    def comparing(compare: Callable[[Any, Any], bool]) -> Any:
        def method(self: Any, other: object) -> Any:
            return compare(get(self), get(other)) if other.__class__ is self.__class__ else NotImplemented

        return method

    def equal(self: Any, other: object) -> Any:
        return get(self) == get(other) if other.__class__ is self.__class__ else NotImplemented

    methods: dict[str, Any] = {"__eq__": equal, "__hash__": lambda self: hash(get(self))}
    ordered = {"__lt__": lt, "__le__": le, "__gt__": gt, "__ge__": ge}
    return methods | ({name: comparing(compare) for name, compare in ordered.items()} if order else {})


def _refuse(self: Any, name: str, value: Any = None) -> None:  # noqa: ARG001
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.RECORD_FIELDS)
    return f"{self.__class__.__qualname__}({shown})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.RECORD_FIELDS]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.RECORD_FIELDS, state, strict=True):
        object.__setattr__(self, name, value)


class _Lazy:
    """What `dataclasses` keeps in a class, made when somebody asks."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name, self.made = owner, name, None

    def __get__(self, instance: object, owner: type) -> Any:
        if self.made is None:
            self.made = getattr(_as_dataclass(self.owner), self.name)
        return self.made


def _as_dataclass(cls: Any) -> Any:
    """A dataclass with the same fields."""
    import dataclasses
    import inspect

    annotations: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        annotations |= inspect.get_annotations(each)
    fields = []
    for name, default in cls.RECORD_FIELDS.items():
        declared: Any = dataclasses.field()
        if isinstance(default, _Factory):
            declared = dataclasses.field(default_factory=default.make)
        elif default is not _MISSING:
            declared = dataclasses.field(default=default)
        fields.append((name, annotations[name], declared))
    return dataclasses.make_dataclass(cls.__name__, fields, frozen=True, kw_only=not cls.__match_args__)
