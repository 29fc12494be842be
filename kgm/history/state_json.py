"""The state kept between two runs, as JSON: dataclasses, with the lists, dicts, enums, bytes and rows in them.

A field with the default None is left out while it is None, and a missing field is read as its default, so states that
an older kgm wrote can be read as long as fields are only added. A renamed field keeps its name in JSON
(`json_name`)."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

_BYTES = "$bytes"
_Load = Callable[[Any], Any]
_JSON_NAME = "json"
State = TypeVar("State")


def json_name(name: str) -> dict[str, str]:
    """The metadata for a dataclass field that has another name in JSON."""
    return {_JSON_NAME: name}


def dump_state(state: object) -> bytes:
    """A state as JSON."""
    return _ENCODER.encode(state).encode()


def load_state(cls: type[State], data: bytes | str) -> State:
    """The state from its dump."""
    plain = _DECODER.decode(data if isinstance(data, str) else data.decode())
    hint: Any = cls
    load = _loader(hint)
    state: State = plain if load is None else load(plain)
    return state


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: b64encode(value).decode()}
    kind: Any = type(value)
    if is_dataclass(value):
        return {
            json_name: content
            for name, json_name, optional in _fields(kind)
            if (content := getattr(value, name)) is not None or not optional
        }
    raise TypeError(kind.__name__)


_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"))


@cache
def _fields(cls: type[Any]) -> tuple[tuple[str, str, bool], ...]:
    """(name, name in JSON, whether it is None by default) of each field."""
    return tuple((each.name, each.metadata.get(_JSON_NAME, each.name), each.default is None) for each in fields(cls))


def _bytes(value: dict[str, Any]) -> Any:
    return b64decode(value[_BYTES]) if _BYTES in value else value


_DECODER = json.JSONDecoder(object_hook=_bytes)


@cache
def _loader(hint: Any) -> _Load | None:
    """A function from JSON's value to a value of the type; None if no conversion is needed."""
    if get_origin(hint) in (Union, UnionType):
        (known,) = (_loader(each) for each in get_args(hint) if each is not NoneType)
        return None if known is None else lambda value: None if value is None else known(value)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass_loader(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    container, inner = get_origin(hint), get_args(hint)
    if container is dict:
        return _dict_loader(_loader(inner[1]))
    if container in (list, tuple):
        return _sequence_loader(container, inner)
    return None


def _dataclass_loader(cls: Any) -> _Load:
    hints = get_type_hints(cls)
    loads = [(name, known) for name, _, _ in _fields(cls) if (known := _loader(hints[name])) is not None]
    name_of = {json_name: name for name, json_name, _ in _fields(cls)}

    def load(value: dict[str, Any]) -> Any:
        # An unknown name is from another version, or a column that the table does not have.
        made = {name_of[json_name]: content for json_name, content in value.items() if json_name in name_of}
        for name, of_field in loads:
            if name in made:
                made[name] = of_field(made[name])
        return cls(**made)

    return load


def _dict_loader(load: _Load | None) -> _Load | None:
    return None if load is None else lambda value: {key: load(each) for key, each in value.items()}


def _sequence_loader(container: Any, inner: tuple[Any, ...]) -> _Load | None:
    if container is tuple and (len(inner) != 2 or inner[1] is not ...):
        loads = [_loader(each) for each in inner]
        if not any(loads):
            return tuple
        return lambda value: tuple(
            each if load is None else load(each) for load, each in zip(loads, value, strict=True)
        )  # fmt: skip
    element = _loader(inner[0])
    if element is None:
        return tuple if container is tuple else None
    return lambda value: container(map(element, value))
