"""Named tuples are what `typing` makes of the same fields."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing

import pytest

from kgm.model import named_tuple
from kgm.model.snapshot import OffsetSnapshot
from kgm.protocol.struct import Field
from kgm.protocol.wire import RequestHeader

OURS = [OffsetSnapshot, Field, RequestHeader]


class Place(named_tuple.NamedTuple):
    """Where."""

    topic: str
    partition: int = 3
    leader: str | None = None

    @property
    def text(self):
        return f"{self.topic}[{self.partition}]"


class Theirs(typing.NamedTuple):
    """Where."""

    topic: str
    partition: int = 3
    leader: str | None = None

    @property
    def text(self):
        return f"{self.topic}[{self.partition}]"


@pytest.mark.parametrize("arguments", [("a",), ("a", 1), ("a", 1, "b")])
def test_they_are_made_alike(arguments):
    ours, theirs = Place(*arguments), Theirs(*arguments)
    assert tuple(ours) == tuple(theirs)
    assert ours == arguments + (3, None)[len(arguments) - 1 :]
    assert (ours.topic, ours.partition, ours.leader, ours.text) == (
        theirs.topic, theirs.partition, theirs.leader, theirs.text,
    )  # fmt: skip
    assert repr(ours) == repr(theirs).replace("Theirs", "Place")
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(topic="z") == theirs._replace(topic="z") == Place("z", *ours[1:])
    for copied in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), Place._make(ours)):
        assert copied == ours
        assert type(copied) is Place
    match ours:
        case Place(topic, partition):
            assert (topic, partition) == theirs[:2]


@pytest.mark.parametrize("wrong", [((), {}), (("a",), {"topic": "b"}), (("a", 1, "b", 2), {}), ((), {"nope": 1})])
def test_they_refuse_the_same(wrong):
    positions, names = wrong
    for cls in (Place, Theirs):
        with pytest.raises(TypeError):
            cls(*positions, **names)
    for cls in (Place, Theirs):
        with pytest.raises(TypeError):
            cls._make(["a", 1])
        with pytest.raises((TypeError, ValueError)):
            cls("a")._replace(nope=1)
        with pytest.raises(AttributeError):
            cls("a").topic = "b"
        with pytest.raises(AttributeError):
            cls("a").other = "b"


def test_a_class_says_the_same_of_itself():
    for name in (
        "_fields",
        "_field_defaults",
        "__match_args__",
        "__doc__",
        "__slots__",
        "__bases__",
        "__annotations__",
    ):
        ours, theirs = getattr(Place, name), getattr(Theirs, name)
        if name == "__annotations__":
            theirs = {field: kind.__forward_arg__ for field, kind in theirs.items()}
        assert ours == theirs, name
    parameters = [[*inspect.signature(cls.__new__).parameters][1:] for cls in (Place, Theirs)]
    assert parameters[0] == parameters[1]


@pytest.mark.parametrize("ours", OURS, ids=lambda each: each.__name__)
def test_those_that_are_used(ours):
    values = tuple(range(len(ours._fields)))
    made = ours(*values)
    assert made == values == ours(**dict(zip(ours._fields, values, strict=True)))
    assert tuple(getattr(made, field) for field in ours._fields) == values
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_class_that_does_not_tell_its_fields_is_refused():
    """Python 3.14 passes a function that works the annotations out, unless they are written down."""
    assert [*named_tuple.annotated("Pair", {"__annotations__": {"a": "int"}, "__annotate_func__": None})] == ["a"]
    assert [*named_tuple.annotated("Nothing", {})] == []
    with pytest.raises(TypeError, match="Pair: its module lacks"):
        named_tuple.annotated("Pair", {"__annotate_func__": lambda _format: {"a": int}})
