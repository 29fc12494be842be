"""A record is what a frozen dataclass with slots is."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import pytest

from kgm.model.record import field, record, replace


@record
class Point:
    x: int
    y: int = 2
    names: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.x + self.y


@record
class Deep(Point):
    z: int = 3
    y: int = 20


@record(kw_only=False, order=True)
class Pair:
    first: str
    second: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlainPoint:
    x: int
    y: int = 2
    names: dict[str, int] = dataclasses.field(default_factory=dict)


def test_construction_and_defaults():
    assert (Point(x=1).x, Point(x=1).y, Point(x=1).names, Point(x=1).total) == (1, 2, {}, 3)
    assert Point(x=1).names is not Point(x=1).names
    assert (Deep(x=1).y, Deep(x=1).z) == (20, 3)
    assert Pair("a") == Pair("a", 0) == Pair(second=0, first="a")
    for wrong in (Point, lambda: Point(1), lambda: Point(x=1, w=2), lambda: Pair("a", 1, 2)):
        with pytest.raises(TypeError):
            wrong()


def test_signatures_are_those_of_a_dataclass():
    ours, theirs = inspect.signature(Point).parameters, inspect.signature(PlainPoint).parameters
    assert [(name, each.kind) for name, each in ours.items()] == [(name, each.kind) for name, each in theirs.items()]


def test_it_is_frozen_and_has_slots():
    point = Point(x=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 2
    assert not hasattr(point, "__dict__")


def test_equality_hash_order_and_text():
    assert Point(x=1) == Point(x=1) != Point(x=2)
    assert Point(x=1) != Deep(x=1, y=2)
    assert Pair("a", 1) < Pair("a", 2) <= Pair("b")
    assert Pair("b") > Pair("a") >= Pair("a")
    assert len({Pair("a"), Pair("a"), Pair("b")}) == 2
    assert repr(Point(x=1)) == repr(PlainPoint(x=1)).replace("PlainPoint", "Point")
    with pytest.raises(TypeError):
        hash(Point(x=1))  # it has a dict


def test_replace_copy_pickle_and_patterns():
    one = Deep(x=1, names={"a": 1})
    for change in (replace, dataclasses.replace):
        assert change(one, z=9) == Deep(x=1, z=9, names={"a": 1})
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == copy.copy(one) == one
    match Pair("a", 3):
        case Pair(first, second):
            assert (first, second) == ("a", 3)


def test_dataclasses_take_it():
    assert dataclasses.is_dataclass(Point)
    assert [each.name for each in dataclasses.fields(Deep)] == ["x", "y", "names", "z"]
    assert dataclasses.asdict(Point(x=1)) == dataclasses.asdict(PlainPoint(x=1))

    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class More(Point):
        more: int = 5

    assert (More(x=1).x, More(x=1).y, More(x=1, more=6).more) == (1, 2, 6)


@pytest.mark.parametrize("count", [*range(1, 18), 24])
@pytest.mark.parametrize("kw_only", [True, False])
def test_constructors_of_any_size_are_those_of_dataclasses(count, kw_only):
    """Those of up to sixteen fields are written, the others compiled."""
    names = [f"field_{place}" for place in range(count)]
    for defaults in range(count + 1):
        body = {name: f"default of {name}" for name in names[count - defaults :]}
        body["__annotations__"] = dict.fromkeys(names, "str")
        ours = record(kw_only=kw_only)(type("Sized", (), {**body, "__module__": __name__}))
        theirs = dataclasses.dataclass(frozen=True, slots=True, kw_only=kw_only)(type("Sized", (), dict(body)))
        assert [(p.name, p.kind, p.default) for p in inspect.signature(ours).parameters.values()] == [
            (p.name, p.kind, p.default) for p in inspect.signature(theirs).parameters.values()
        ]
        values = {name: f"value of {name}" for name in names}
        given = dict([*values.items()][: count - defaults // 2])
        made = ours(**given) if kw_only else ours(*given.values())
        assert [getattr(made, name) for name in names] == [given.get(name, body.get(name)) for name in names]
        if defaults < count:
            for cls in (ours, theirs):
                with pytest.raises(TypeError, match=r"Sized\.__init__\(\) missing .* required .* '?field_0'?"):
                    cls()


def test_a_field_without_a_default_never_follows_one_that_has_one():
    for decorate in (record(kw_only=False), dataclasses.dataclass(frozen=True)):
        with pytest.raises((TypeError, SyntaxError)):
            decorate(type("Mixed", (), {"first": 1, "__annotations__": {"first": "int", "second": "int"}}))
