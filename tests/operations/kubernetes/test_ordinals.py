"""Names of pods, taken apart and put together."""

from __future__ import annotations

import pytest

from kgm.operations.kubernetes.ordinals import NumberedPod, braced
from kgm.text.braces import expand_list


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("app-0", ("app", 0)), ("my-app-12", ("my-app", 12)), ("app", None), ("app-01", None), ("-1", None), ("app-x", None),
        ("app--1", None),
    ],
)  # fmt: skip
def test_names(name, parts):
    pod = NumberedPod.of(name)
    assert (pod if pod is None else (pod.stateful_set, pod.ordinal)) == parts


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["app-2", "app-3", "app-4"], "app-{2..4}"), (["app-2"], "app-2"), (["app-2", "app-4"], "app-2,app-4"),
        (["a-1", "b-2"], "a-1,b-2"), (["x", "app-3"], "x,app-3"),
        ([" app-1", " app-2"], r"\ app-{1..2}"), ([" app-1"], r"\ app-1"), (["a,b-1", "a,b-2"], r"a\,b-{1..2}"),
        (["a,b", "x "], r"a\,b,x\ "), (["{1..2}-1"], r"\{1..2\}-1"),
    ],
)  # fmt: skip
def test_a_list_is_written_so_that_it_is_read_as_the_same(names, text):
    assert braced(names) == text
    assert list(expand_list(text, "-i")) == names
