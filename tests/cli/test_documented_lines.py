"""Every line of the documentation that a reader may type is one that kgm takes, and what pages show is printed.

The consoles of the runbooks are played by test_books.py, the README's session was recorded on a real broker; here are
the lines in blocks of shell, and the examples of the help."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from kgm.cli.commands.about.examples import EXAMPLES
from tests import ROOT
from tests.cli.runner import kgm
from tests.docs.book import DOCS
from tests.kafka.broker import free_ports
from tools.manual.tree import leaves

README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
#: What ends a command in a line of shell.
ENDS = ("&&", "||", "|", ">", "2>", "2>&1", "&", "<")
#: Commands that only ask a cluster: without one they end at once.
ASKING = {"list", "describe", "simulate-bounce", "drain", "plan", "doctor", "wait", "remove-members", "scale-in"}
LEAVES = leaves()


def commands_of(text: str) -> list[list[str]]:
    """The words of each kgm command in some shell."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.replace(";", " && "), comments=True)
        for at, word in enumerate(words):
            if word == "kgm" or word.endswith("/bin/kgm"):
                if words[at - 1] in ("--from", "install") or (at and words[at - 1].startswith("-")):
                    continue
                rest = words[at + 1 :]
                stop = next((i for i, each in enumerate(rest) if each in ENDS), len(rest))
                found.append(rest[:stop])
    return found


def documented():
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for words in commands_of(block):
                yield page.name, words
    for lines in EXAMPLES.values():
        for line, _ in lines:
            for words in commands_of(line):
                yield "examples", words


LINES = list(documented())


def leaf_of(words):
    """The command, and its arguments."""
    length = next((n for n in (2, 1) if tuple(words[:n]) in LEAVES), None)
    assert length is not None, f"no command: {words}"
    return tuple(words[:length]), words[length:]


def test_there_are_lines_on_the_pages():
    pages = {page for page, _ in LINES}
    assert {"README.md", "examples", "rollout.md", "spark.md"} <= pages
    assert len(LINES) > 60


@pytest.mark.parametrize(("page", "words"), LINES, ids=[f"{page}: {' '.join(words)}" for page, words in LINES])
def test_kgm_takes_the_words(page, words):
    name, arguments = leaf_of(words)
    if "..." in arguments:  # "and so on"
        arguments = arguments[: arguments.index("...")]
    LEAVES[name].make_context(" ".join(name), list(arguments), resilient_parsing=False)


@pytest.mark.slow
def test_lines_that_ask_a_cluster_come_as_far_as_the_cluster(tmp_path, monkeypatch):
    """2 would be a value that kgm does not take."""
    monkeypatch.chdir(tmp_path)
    before = []
    for name in ("orders", "payments"):
        member = {"member_id": f"{name}-3-x", "group_instance_id": f"{name}-3", "status": "stable", "assignment": {}}
        before.append({"group_id": name, "type": "classic", "state": "Stable", "topics": [], "members": [member]})
    (tmp_path / "before.json").write_text(json.dumps({"groups": before}))
    nowhere = {"KGM_BOOTSTRAP_SERVER": f"127.0.0.1:{free_ports(1)[0]}"}
    tried = 0
    for page, words in LINES:
        name, arguments = leaf_of(words)
        if name[0] not in ASKING or "-b" in arguments or "--members" in arguments or "…" in arguments:
            continue
        tried += 1
        run = kgm(*words, "--timeout", "1s", env=nowhere)
        assert run.code == 5, (page, words, run.err)
    assert tried > 20


def console(page: str, command: str) -> str:
    """What a page shows that a command prints."""
    text = (DOCS / page).read_text()
    (block,) = [
        each for each in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if command in each
    ]
    return block.partition(command)[2].strip("\n")


@pytest.mark.long
@pytest.mark.slow
def test_the_page_shows_what_a_scale_out_costs():
    command = "simulate-bounce --members 4 --topic orders:12 --scale-out 3 --scale-out-every 20s --target-size 7"
    shown = console("serve.md", f"$ kgm {command}\n")
    assert kgm(*command.split()).out.partition("\n")[2].startswith(shown)


@pytest.mark.long
@pytest.mark.slow
def test_the_page_shows_what_is_explained():
    text = (DOCS / "history.md").read_text()
    line = re.search(r"bin/kgm (history explain .*)", text)[1]
    (shown,) = re.findall(r"^```console\n(billing  6 rebalances.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert kgm(*shlex.split(line)).out.rstrip() == shown.rstrip()


def test_a_line_of_shell_is_read_as_a_shell_reads_it():
    assert commands_of("kgm a 'b c' | x; kgm d > f  # kgm e") == [["a", "b c"], ["d"]]
    assert commands_of("uvx --from kafka-kgm kgm list") == [["list"]]
