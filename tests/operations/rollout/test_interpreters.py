"""Each command for `kgm rollout` that the documentation and the help show, with ids that a client chose to do harm, through
programs that parse their arguments again."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgm.model.errors import RefusedError
from kgm.operations.rollout.commands.template import CommandTarget, CommandTemplate, environment
from tests import ROOT
from tests.operations.rollout.interpreters import Interpreters

#: `touch` in each of these makes the canary if a shell reads it.
HOSTILE = (
    'app-2;touch${IFS}"$CANARY"', "app-2;touch$IFS$CANARY", "app-2$(touch $CANARY)", "app-2`touch $CANARY`",
    "app-2\ntouch $CANARY", "app-2 && touch $CANARY", "app-2|touch $CANARY", "app-2>$CANARY", "'; touch $CANARY; '",
    '"; touch $CANARY; "', "all", "*", "app-2:all", "-oProxyCommand=touch $CANARY", "--limit=all", "-i",
)  # fmt: skip
#: Those that the filter lets pass: no shell reads anything into them.
PASSING = ("all", "app-2:all")
#: What is not shown anywhere, and an operator may write.
OTHERS = (
    "ssh {host} systemctl restart {instance_id}", "ssh {host} 'sudo systemctl restart {client_id}'",
    "sh -c 'systemctl restart {instance_id}'", "kubectl exec {pod} -- sh -c 'restart {instance_id}'",
    "docker exec {client_id} sh -c 'restart {member_id}'", "ansible app-1 -m shell -a 'restart {instance_id}'",
)  # fmt: skip
_OPTION = re.compile(r"""--(?:exec|exec-stop|on-failure)[= ]+(?:'([^'\n]+)'|"([^"\n]+)")""")


def shown() -> list[tuple[str, bool]]:
    """Every command, and whether it is for a shell."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "kgm").rglob("*.py"))]
    found = {}
    for page in pages:
        for line in page.read_text().splitlines():
            for match in _OPTION.finditer(line):
                text = (match[1] or match[2]).removeprefix("run ")
                found[text, "--shell" in line] = None
    return [one for one in found if one[0] not in ("CMD", "--exec")]


SHOWN = shown()


#: Values that the same party chooses: the client, or who starts its pod.
CHOSEN = (("instance_id",), ("client_id", "member_id"), ("pod",))


def target(value, names):
    """A member with this value of these placeholders."""
    values = {"instance_id": "app-2", "member_id": "app-2-x", "client_id": "app", "pod": "app-2"}
    values |= dict.fromkeys(names, value)
    return CommandTarget(
        group_id="g", step=1, index=0, group_instance_id=values["instance_id"], member_id=values["member_id"],
        client_id=values["client_id"], host="127.0.0.1", pod=values["pod"], partitions={},
    )  # fmt: skip


@pytest.fixture
def programs(tmp_path):
    return Interpreters(tmp_path)


def is_interpreted(programs, text, template, one):
    """Whether a value of the member did something. Raises RefusedError."""
    argv = template.argv(one)
    programs.provide(re.findall(r"[A-Za-z][\w./-]*", text))
    return programs.run(argv, environment(one, programs.environment))


def test_every_program_that_a_page_calls_has_a_stand_in():
    programs = {shlex.split(text)[0] for text, _ in SHOWN}
    assert {"ssh", "docker", "ansible", "kubectl", "systemctl"} <= programs
    assert len(SHOWN) >= 10


@pytest.mark.parametrize(("text", "is_shell"), [*SHOWN, *((text, False) for text in OTHERS)])
def test_no_value_is_interpreted(text, is_shell, programs):
    template = CommandTemplate.parse(text, "--exec", is_shell=is_shell)
    chosen = [names for names in CHOSEN if template.uses & set(names)]
    refused = 0
    for value in HOSTILE:
        for names in chosen:
            try:
                assert not is_interpreted(programs, text, template, target(value, names)), (value, names)
            except RefusedError:
                refused += 1
    assert refused == len(chosen) * (len(HOSTILE) - len(PASSING))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ssh {host} sudo systemctl restart app@{instance_id}", HOSTILE[1]),
        ("ssh {host} sudo systemctl restart app@{instance_id}", HOSTILE[3]),
        (OTHERS[2], HOSTILE[2]),
        (OTHERS[3], HOSTILE[5]),
        (OTHERS[5], HOSTILE[6]),
        ("ansible {instance_id} -m ping", "*"),
        ("ansible {instance_id} -m ping", "all"),
        ("ansible host-{instance_id} -m ping", "x:all"),
        ("ansible all --limit {instance_id} -m ping", "all"),
    ],
)
def test_the_stand_ins_interpret_what_they_are_given(text, value, programs):
    """Without the filter the canary appears; `all` passes it, which is why no page shows a pattern from an id."""
    template = CommandTemplate.parse(text, "--exec", allows_any_value=True)
    assert is_interpreted(programs, text, template, target(value, tuple(template.uses - {"host"})))


_VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.from_regex(r"[\w.:@-]{1,8}\Z")


@settings(max_examples=10)
@given(st.lists(_VALUES, min_size=20, max_size=40))
@example(["a;b", "~", "a\u00a0b", "a=b", "a", "@:.-", "-a", "a\n"])
def test_a_value_that_is_filled_in_is_itself_for_a_shell(values):
    template = CommandTemplate.parse("x app@{client_id} {client_id}", "--exec")
    words = []
    for value in values:
        if re.fullmatch(r"[A-Za-z0-9._:@][A-Za-z0-9._:@-]*", value) is None:
            with pytest.raises(RefusedError, match=r"\{client_id\} of member 'app-2'"):
                template.argv(target(value, ("client_id",)))
        else:
            words += template.argv(target(value, ("client_id",)))
            assert words[-3:] == ["x", f"app@{value}", value]
    line = "printf '%s\\n' start " + " ".join(words)
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["start", *words]
