"""From a command and a member to words, environment and input. Values come from the network and are hostile."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kgm.model.errors import RefusedError, UsageError
from kgm.operations.rollout.commands.template import (
    CommandTarget,
    CommandTemplate,
    by_command,
    environment,
    input_line,
    refuse_shared_commands,
)  # fmt: skip

HOSTILE = 'a\' "b" $(touch x); `id` {pod} | * \\'


def target(**changes):
    values = {
        "group_id": "orders", "step": 1, "index": 0, "group_instance_id": "app-1", "member_id": "app-1-x", "client_id": "c",
        "host": "10.0.0.1", "pod": None, "partitions": {"t": (2, 0)},
    }  # fmt: skip
    return CommandTarget(**{**values, **changes})


def test_a_command_is_split_once_and_filled_in_afterwards():
    text = "ssh {host} 'systemctl restart' app@{instance_id} {{x}} {index}"
    template = CommandTemplate.parse(text, "--exec", allows_any_value=True)
    assert template.argv(target(group_instance_id="a b")) == [
        "ssh", "10.0.0.1", "systemctl restart", "app@a b", "{x}", "0",
    ]  # fmt: skip


def test_a_hostile_value_stays_one_word_of_a_real_process(tmp_path):
    code = f"{sys.executable} -c 'import sys, json; print(json.dumps(sys.argv[1:]))' {{client_id}} end"
    argv = CommandTemplate.parse(code, "--exec", allows_any_value=True).argv(target(client_id=HOSTILE))
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == [HOSTILE, "end"]
    assert list(tmp_path.iterdir()) == []


def test_a_shell_gets_values_as_variables_only(tmp_path):
    one = target(client_id=HOSTILE)
    template = CommandTemplate.parse('printf %s "$KGM_CLIENT_ID"', "--exec", is_shell=True, allows_any_value=True)
    done = subprocess.run(
        template.argv(one), env=environment(one, {"PATH": "/usr/bin:/bin"}), capture_output=True, text=True, check=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == HOSTILE
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match=r"\{client_id\} is not filled in with --shell"):
        CommandTemplate.parse("echo '{client_id}'", "--exec", is_shell=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the command is empty"),
        ("restart 'app", "cannot be split into words"),
        ("restart {instance}", r"\{instance\} is not a placeholder"),
        ("{client_id} x", "the name of the program has a placeholder"),
        ("'' x", "the name of the program has a placeholder, or is empty"),
    ],
)
def test_commands_that_are_not_valid(text, message):
    with pytest.raises(UsageError, match=message):
        CommandTemplate.parse(text, "--exec")


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("restart {instance_id}", {"group_instance_id": None}, "has none"),
        ("restart {client_id}", {"client_id": ""}, "has none"),
        ("restart {pod}", {}, "no member was resolved to a pod"),
        ("restart {client_id}", {"client_id": "--all"}, r"\{client_id\} of member 'app-1' begins with '-'"),
        ("sh -c 'restart {client_id}'", {"client_id": "-a"}, r"\{client_id\} of member 'app-1' begins with '-'"),
        (
            "ssh h a@{instance_id}",
            {"group_instance_id": "a;b"},
            r"\{instance_id\} of member 'a;b' has the character ';'",
        ),
        ("ssh {host} a", {"host": "10.0.0.1/8"}, r"\{host\} of member 'app-1' has the character '/'"),
        ("x {pod}", {"pod": "caf\u00e9"}, r"\{pod\} of member 'app-1' has the character '\u00e9'"),
        ("restart {client_id}", {"client_id": "a\nb"}, "control characters"),
        ("restart {host}", {"host": "a\x1b[2J"}, "control characters"),
    ],
)
def test_values_that_are_missing_or_not_safe(text, changes, message):
    with pytest.raises(RefusedError, match=message):
        CommandTemplate.parse(text, "--exec").argv(target(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"client_id": "--all"}, "take for an option"), ({"client_id": "a\nb"}, "control characters")],
)
def test_what_is_refused_where_any_value_is_allowed(changes, message):
    template = CommandTemplate.parse("restart {client_id}", "--exec", allows_any_value=True)
    with pytest.raises(RefusedError, match=message):
        template.argv(target(**changes))


def test_a_value_within_a_word_may_begin_with_a_dash_where_any_is_allowed():
    template = CommandTemplate.parse("x --id={client_id}", "--exec", allows_any_value=True)
    assert template.argv(target(client_id="-a")) == ["x", "--id=-a"]


def test_a_shell_command_gets_no_value_that_it_names_and_a_shell_would_interpret():
    template = CommandTemplate.parse('ssh h "app@$KGM_INSTANCE_ID"', "--exec", is_shell=True)
    assert template.argv(target(client_id="$(id)")) == ["/bin/sh", "-c", 'ssh h "app@$KGM_INSTANCE_ID"']
    with pytest.raises(RefusedError, match=r"\{instance_id\} of member '`id`' has the character '`'"):
        template.argv(target(group_instance_id="`id`"))


def test_environment_and_input_have_the_values_and_nothing_that_was_inherited():
    inherited = {"PATH": "/bin", "KGM_POD": "another", "KGM_INSTANCE_ID": "another"}
    assert environment(target(group_instance_id=None), inherited) == {
        "PATH": "/bin", "KGM_MEMBER_ID": "app-1-x", "KGM_CLIENT_ID": "c", "KGM_HOST": "10.0.0.1", "KGM_INDEX": "0",
        "KGM_GROUP_ID": "orders", "KGM_STEP": "1",
    }  # fmt: skip
    with pytest.raises(RefusedError, match="KGM_CLIENT_ID would be"):
        environment(target(client_id="a\0b"), {})
    line = input_line(target(client_id="line\nbreak"))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "group_id": "orders", "step": 1, "index": 0, "instance_id": "app-1", "member_id": "app-1-x",
        "client_id": "line\nbreak", "host": "10.0.0.1", "pod": None, "partitions": {"t": [2, 0]},
    }  # fmt: skip


def test_members_of_one_host_have_one_command():
    template = CommandTemplate.parse("ssh {host} restart", "--exec")
    first, second = target(), target(group_instance_id="app-2", member_id="app-2-x", index=1)
    assert by_command(template, [first, second]) == [[first, second]]
    refuse_shared_commands(template, [[first, second]])
    later = target(group_instance_id="app-2", member_id="app-2-x", index=1, step=2)
    with pytest.raises(RefusedError, match=r"the same for app-1 \(step 1\) and app-2 \(step 2\)"):
        refuse_shared_commands(template, [[first], [later]])
    without = CommandTemplate.parse("./restart", "--exec")
    refuse_shared_commands(without, [[first], [later]])
    assert by_command(without, [first, second]) == [[first], [second]]
