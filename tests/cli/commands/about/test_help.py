"""`kgm help`: the help of a command, and its manual page with and without man."""

import re
import subprocess

import pytest

from tests import ROOT
from tests.cli.output.test_terminal import at_terminal
from tests.cli.runner import kgm
from tests.needs import needs
from tools.manual.tree import command_tree

PAGES = sorted((ROOT / "man").glob("*.1"))


@pytest.mark.parametrize("words", [[], ["list"], ["history", "explain"], ["config"]], ids=" ".join)
def test_help_of_a_command(words):
    asked, known = kgm("help", *words), kgm(*words, "--help")
    assert (asked.code, asked.out, asked.err) == (0, known.out, "")
    assert asked.out.startswith(f"Usage: {' '.join(['kgm', *words])} [OPTIONS]")


@pytest.mark.parametrize("words", [["none"], ["--man", "none"], ["--man", "../README"], ["--man", "history", "x"]])
def test_a_command_that_does_not_exist(words):
    run = kgm("help", *words)
    assert (run.code, run.out) == (2, "")
    assert re.search(r"[Nn]o(?: such)? command", run.err)


def test_help_has_a_help():
    run = kgm("help", "--help")
    assert run.code == 0
    assert "kgm help --man remove-members" in run.out


def written(text):
    """Words and punctuation alone, without hyphens: what man draws in a terminal may wrap and hyphenate."""
    return re.sub(r"[\s\u2010-]+", "", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_plain_text_says_what_man_says(page):
    from kgm.cli.commands.about.manual_text import plain_text

    mandoc = subprocess.run(
        [needs("mandoc"), "-Tutf8", "-Owidth=80", page], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    *body, _ = re.sub(".\b", "", mandoc).rstrip().splitlines()  # the last line is the date
    ours = plain_text(page.read_text())
    assert written(ours) == written("\n".join(body))
    assert [line for line in ours.splitlines() if len(line) > 80 and " " in line.strip()] == []


def test_a_page_in_a_pipe_is_plain_text():
    run = kgm("help", "--man", "history", "explain")
    assert (run.code, run.err) == (0, "")
    assert run.out.startswith("KGM-HISTORY-EXPLAIN(1)")
    assert "\nSYNOPSIS\n       kgm history explain [OPTIONS] [GROUP]\n" in run.out
    assert kgm("help", "--man").out.startswith("KGM(1)")


def with_man(folder, program):
    """What `kgm help --man list` draws when `man` on PATH is this program; None: there is none."""
    (folder / "bin").mkdir()
    if program is not None:
        script = folder / "bin" / "man"
        script.write_text(f"#!/bin/sh\n{program}\n")
        script.chmod(0o755)
    code, drawn = at_terminal("help", "--man", "list", columns=100, env={"PATH": str(folder / "bin")})
    assert code == 0
    return drawn


def test_at_a_terminal_man_shows_the_page(tmp_path):
    assert with_man(tmp_path, 'echo "$#: $1"') == f"1: {ROOT}/man/kgm-list.1\n"


@pytest.mark.parametrize("program", [None, "exit 3"], ids=["no man", "man fails"])
def test_without_man_the_text_is_printed(tmp_path, program):
    assert with_man(tmp_path, program) == kgm("help", "--man", "list").out


def test_every_command_has_examples_and_its_help_ends_with_them():
    from kgm.cli.commands.about.examples import EXAMPLES

    leaves = {" ".join(each.words) for each in command_tree().walk() if not each.children}
    assert EXAMPLES.keys() == leaves
    run = kgm("history", "explain", "--help")
    *_, examples = run.out.partition("Examples:\n")
    for line, meaning in EXAMPLES["history explain"]:
        assert f"    {line}\n        {meaning}\n" in examples
    assert kgm("history", "explain", "-h").out == run.out
    assert kgm("history", "explain", "payments", "--since", "2h", "-h").out == run.out


def test_every_example_is_a_command_line_that_is_taken():
    import shlex

    import click

    from kgm.cli.commands.about.examples import EXAMPLES
    from kgm.cli.options.word_order import in_order
    from tools.manual.tree import leaves

    commands = leaves()
    for name, examples in EXAMPLES.items():
        for line, _ in examples:
            words = in_order(shlex.split(re.sub(r" > \S+$|^source <\(|\)$", "", line))[1:], ["history", "config"])
            depth = len(name.split())
            if name == "help" and "--man" not in words:
                assert words[-1] == "--help", line
                continue
            assert " ".join(words[:depth]) == name, line
            with commands[tuple(words[:depth])].make_context("kgm", words[depth:]) as context:
                assert isinstance(context, click.Context)
