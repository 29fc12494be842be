"""What help says about options that several commands have: one text for one meaning, and no default that does not
apply."""

from __future__ import annotations

import pytest

from tools.manual.tree import command_tree

COMMANDS = {" ".join(command.words): command for command in command_tree().walk()}


def option(command, name):
    (found,) = (one for one in COMMANDS[command].options if name in one.names)
    return found


@pytest.mark.parametrize(
    ("command", "limited"),
    [
        ("watch", "How long to watch (no limit)"), ("top", "How long to redraw the screen (no limit)"),
        ("plan", "for the search"), ("drain", "for their simulation"), ("rollout", "not for the rollout"),
        ("export", "for each collection"), ("history capture", "not for the capture"),
        ("history build", "not for the build"), ("history simulate-fleet", "if given on the command line"),
    ],
)  # fmt: skip
def test_a_time_limit_that_is_not_of_the_whole_command_says_of_what(command, limited):
    timeout = option(command, "--timeout")
    assert limited in timeout.help
    assert "30s" in timeout.help
    assert (timeout.default, timeout.environment) == (None, "KGM_TIMEOUT")


@pytest.mark.parametrize("command", ["describe", "wait", "remove-members", "doctor"])
def test_other_time_limits_are_of_the_whole_command(command):
    assert "whole command" in option(command, "--timeout").help
    assert option(command, "--timeout").default == "30s"


def test_an_option_for_groups_has_a_text_for_each_meaning():
    texts = {one.help for command in COMMANDS.values() for one in command.options if "--group" in one.names}
    tested = option("config test", "--group").help
    assert texts == {"The group.", "A group; repeatable.", "Only this group; repeatable.", tested}


def test_most_unavailable_processes_mean_the_same_everywhere():
    texts = {one.help for each in COMMANDS.values() for one in each.options if "--max-unavailable" in one.names}
    assert len(texts) == 1


def test_defaults_that_depend_on_other_options_are_told():
    assert "(20; 200" in option("drain", "--draws").help
    assert "(no limit)" in option("history capture", "--most-records").help
    assert "a glob" in option("drain", "--host").help
