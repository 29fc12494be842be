"""Enumerations are what `enum` makes of the same values, as far as anybody can tell who uses them."""

from __future__ import annotations

import copy
import enum
import importlib
import json
import pickle

import pytest

from kgm.model import enumeration
from kgm.model.error_code import ErrorCode
from kgm.protocol.apis import ApiKey

OURS = [
    ErrorCode,
    ApiKey,
    *(
        getattr(importlib.import_module(module), name)
        for module, name in (
            ("kgm.client.transport.connection", "ConnectStep"),
            ("kgm.operations.groups.listing", "GroupOrder"),
            ("kgm.operations.groups.unread", "UnreadKind"),
            ("kgm.cli.commands.describe", "DescribeView"),
        )
    ),
]
KINDS = {enumeration.Enum: enum.Enum, enumeration.IntEnum: enum.IntEnum, enumeration.StrEnum: enum.StrEnum}


def python_s_own(ours):
    return KINDS[ours.__base__](ours.__name__, {name: member.value for name, member in ours.__members__.items()})


@pytest.mark.parametrize("ours", OURS, ids=lambda each: each.__name__)
def test_a_class_is_what_enum_makes(ours):
    theirs = python_s_own(ours)
    assert [*ours.__members__] == [*theirs.__members__]
    assert [member.name for member in ours] == [member.name for member in theirs]
    assert len(ours) == len(theirs)
    assert repr(ours) == repr(theirs)
    assert bool(ours)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.name, mine.value) == (other.name, other.value)
        assert (repr(mine), str(mine), f"{mine}", f"{mine!r}") == (repr(other), str(other), f"{other}", f"{other!r}")
        assert ours(mine.value) is ours[mine.name] is ours(mine) is getattr(ours, mine.name) is mine
        assert mine in ours
        assert isinstance(mine, ours)
        assert copy.copy(mine) is copy.deepcopy(mine) is pickle.loads(pickle.dumps(mine)) is mine
        assert {mine: 1}[mine] == 1
    for wrong in (ours, [], "no such", 10**9, None):
        with pytest.raises(ValueError, match="is not a valid") as refused:
            ours(wrong)
        with pytest.raises(ValueError, match="is not a valid") as expected:
            theirs(wrong)
        assert str(refused.value).split(" is ")[1] == str(expected.value).split(" is ")[1]
    with pytest.raises(KeyError):
        ours["no_such"]


@pytest.mark.parametrize("ours", [ErrorCode, ApiKey])
def test_integers_are_integers(ours):
    for member in ours:
        assert member == member.value == int(member)
        assert hash(member) == hash(member.value)
        assert {member.value: 1}[member] == 1
        assert json.dumps([member]) == json.dumps([member.value])
        assert sorted([member, member.value - 1]) == [member.value - 1, member]
    assert 10**9 not in ours


def test_texts_are_texts():
    step = OURS[2].NAME
    assert step == "name"
    assert json.dumps({step: step}) == '{"name": "name"}'


def test_methods_and_what_begins_with_an_underscore_are_no_members():
    class Way(enumeration.IntEnum):
        UP = 1
        _hidden = 7

        @property
        def doubled(self):
            return self * 2

        def back(self):
            return -self

    assert [*Way] == [1]
    assert (Way.UP.doubled, Way.UP.back(), Way._hidden) == (2, -1, 7)


def test_two_names_of_one_value_are_refused():
    with pytest.raises(TypeError, match=r"Way\.LEFT is the same as Way\.UP"):

        class Way(enumeration.Enum):
            UP = 1
            LEFT = 1


def test_a_match_statement_knows_them():
    match ErrorCode(16):
        case ErrorCode.NOT_COORDINATOR:
            known = True
        case _:
            known = False
    assert known
