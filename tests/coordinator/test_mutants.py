"""Mutants break a rule, not a call: each takes the arguments of what it replaces. Otherwise every test would find it."""

from __future__ import annotations

import inspect

import pytest

from tests.coordinator.classic import mutants as classic
from tests.coordinator.consumer import mutants as consumer

CASES = {**classic.MUTANTS, **consumer.CONSUMER_MUTANTS}


class Recorder:
    """Stands for monkeypatch, and patches nothing."""

    def __init__(self):
        self.replaced = []

    def setattr(self, target, name, value=None, **_):
        self.replaced.append((getattr(target, name), value))


def arguments(function):
    """(least and most arguments by place, arguments by name only)."""
    rows = inspect.signature(function).parameters.values()
    by_place = [row for row in rows if row.kind in (row.POSITIONAL_ONLY, row.POSITIONAL_OR_KEYWORD)]
    takes_all = any(row.kind is row.VAR_POSITIONAL for row in rows)
    names = {row.name for row in rows if row.kind is row.KEYWORD_ONLY}
    takes_names = any(row.kind is row.VAR_KEYWORD for row in rows)
    return (99 if takes_all else len(by_place)), names, takes_names


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_takes_what_the_original_takes(name):
    recorder = Recorder()
    CASES[name](recorder)
    assert recorder.replaced
    for original, value in recorder.replaced:
        if not (inspect.isfunction(original) and inspect.isfunction(value)):
            continue
        most, names, _ = arguments(original)
        own_most, own_names, takes_names = arguments(value)
        assert own_most >= most, (original, value)
        assert takes_names or names <= own_names, (original, value)
