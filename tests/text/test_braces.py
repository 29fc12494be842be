"""Braces and commas in lists of ids, against bash itself."""

import contextlib
import subprocess
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.model.errors import UsageError
from kgm.text.braces import MAX_IDS, as_list, expand_list
from tests.cpu_time import allowed
from tests.needs import needs
from tests.selection import sized

WORDS = [
    "app-{1..3}-StreamThread-{1..2}", "{a,b}{c,d}", "x{01..10}", "{1..9..2}", "{e..a}", "{x}", "a{b,c{1..2}}d", "{-2..2}",
    "{}", "a{,b}", "a{b", "a}b", "{a..c..2}", "{08..11}", "{a,b}c{d", "x{1,{2,3}}y{4..5}", "{1..3", "{10..1..3}",
    "{-03..3}", "{a,{b}}", "{x}{1..2}", "pre{a,b}post{x}", "{1..1}", "{a,b,c}-{3..1}", "{1..2}{1..2}{1..2}",
]  # fmt: skip


def bash(word):
    done = subprocess.run([needs("bash"), "-c", f"printf '%s\\n' {word}"], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("word", WORDS)
def test_braces_as_in_bash(word):
    assert expand_list(word, "--instance-ids") == bash(word)


def test_lists():
    assert expand_list("a,b,c-{1,2}", "o") == ["a", "b", "c-1", "c-2"]
    assert expand_list("a\\,b", "o") == ["a,b"]
    assert expand_list("\\{1..2\\}", "o") == ["{1..2}"]
    assert expand_list("a{b,c", "o") == ["a{b", "c"]


def test_the_letters_between_two_cases_are_themselves():
    assert expand_list("x{Z..a}{1,2}", "o") == [f"x{char}{number}" for char in "Z[\\]^_`a" for number in (1, 2)]


#: Ids that Kafka tells apart.
SPACED = [" w1", "w1 ", " w1 ", "  w1", "\tw1", "w1\n", "\u00a0w1", "w1\u2028", "\\ w1", "w1\\", "w1\\ ", " "]


@pytest.mark.parametrize("name", SPACED)
def test_white_space_at_an_end_is_a_part_of_the_id_or_an_error(name):
    if name != name.strip():
        for text in (name, f"a,{name}", f"{name},a", f"{{{name},a}}", f"{{a,{name}}}"):
            with pytest.raises(UsageError, match=r"white space|empty") as caught:
                expand_list(text.replace("w1\\ ", "w1\\\\ "), "-i")  # in a list, a backslash is two
            assert caught.value.exit_code == 2
    assert expand_list(as_list([name, "w1", name]), "-i") == [name, "w1", name]


def test_a_backslash_keeps_a_space():
    assert expand_list(r"\ w1,w1\ ,a b,a\ b,x{\ 1,2\ }", "o") == [" w1", "w1 ", "a b", "a b", "x 1", "x2 "]
    assert expand_list("w{1, 2}x", "o") == ["w1x", "w 2x"]  # within an id, a space is one


@given(st.lists(st.text("ab1{},.\\ '-\t", min_size=1), min_size=1, max_size=4))
def test_a_list_is_read_as_the_ids_of_which_it_was_made(ids):
    assert expand_list(as_list(ids), "-i") == ids


@pytest.mark.parametrize("text", ["", " ", ",", "a,", ",a", "a,,b", "\t,\n", "{a,}", "{,}"])
def test_an_empty_id_is_never_all(text):
    with pytest.raises(UsageError) as caught:
        expand_list(text, "--instance-ids")
    assert caught.value.exit_code == 2
    assert "--instance-ids" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [f"{{1..{MAX_IDS + 1}}}", "{1..999}{1..999}", "{1..99}" * 9, ",".join(["{1..60000}"] * 2), "{1..99999999999}"],
)
def test_too_many_ids_are_refused_before_they_are_created(text):
    with pytest.raises(UsageError, match="longer than"):
        expand_list(text, "o")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "text",
    [
        "{a,b}" * sized(400, 8_000),
        "{a," * sized(400, 5_000) + "b" + "}" * sized(400, 5_000),
        "{1..1}" * sized(400, 8_000),
        "{{a,b},c}" * sized(250, 3_000),
        "{1.." + "9" * 5_000 + "},{a",
    ],
)
def test_lists_that_cost_too_much_are_refused_at_once(text):
    tracemalloc.start()
    started = time.process_time()
    try:
        with contextlib.suppress(UsageError):
            assert len(expand_list(text, "o")) <= MAX_IDS
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100 << 20
    assert time.process_time() - started < allowed(20)


def test_numbers_and_brackets_without_end_are_plain_text():
    digits = "9" * 5_000
    assert expand_list(f"a{{1..{digits}}}", "o") == [f"a{{1..{digits}}}"]
    assert expand_list("{" * 3_000, "o") == ["{" * 3_000]


@given(st.text(st.sampled_from("ab1{},.-\\"), max_size=14))
@settings(max_examples=sized(11, 200), deadline=None)
def test_any_text_gives_ids_or_a_usage_error(text):
    try:
        ids = expand_list(text, "o")
    except UsageError:
        return
    assert ids


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,30}", fullmatch=True))
@settings(max_examples=sized(6, 50), deadline=None)
def test_ids_without_braces_are_themselves(text):
    assert expand_list(text, "o") == [text]
