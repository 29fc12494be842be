"""The parameters of a planned bounce: the same flag means the same plan in every command that takes it."""

import click
import pytest
import typer

from kgm.cli.options.plan_options import PLAN_OPTIONS, request_of, words_of
from kgm.cli.output.contracts.simulate_bounce import PLAN
from kgm.cli.tree import app, register
from kgm.model.broker_version import BrokerVersion
from kgm.model.errors import UsageError
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.bounce.units import UnitKind
from kgm.simulation.plan.bounce_plan import GroupProtocol, MemberOrder, Membership, Plan, Rolling, Stop, WhatIf

#: What is typed, and the request that it is.
MEANINGS = {
    "instance_ids": (["--instance-ids", "a-{1..2},b"], {"instance_ids": ("a-1", "a-2", "b")}),
    "member_ids": (["-m", "x", "-m", "y,x"], {"member_ids": ("x", "y")}),
    "patterns": (["--match", "a-*", "--match", "b"], {"patterns": ("a-*", "b")}),
    "everyone": (["--all"], {"everyone": True}),
    "together": (["--together"], {"rolling": None}),
    "rolling": (["--rolling"], {"rolling": Rolling()}),
    "max_unavailable": (["--max-unavailable", "3"], {"rolling": Rolling(max_unavailable=3)}),
    "unit": (["--unit", "host"], {"unit": UnitKind.HOST}),
    "pause_ms": (["--pause", "2m"], {"rolling": Rolling(pause_ms=120_000)}),
    "order": (["--order", "leader-last"], {"order": MemberOrder.LEADER_LAST, "rolling": Rolling()}),
    "restart_time_ms": (["--restart-time", "90s"], {"restart_time_ms": 90_000}),
    "stop": (["--stop", "crash"], {"stop": Stop.CRASH}),
    "retry_every_ms": (["--retry-every", "500ms"], {"retry_every_ms": 500}),
    "migrate": (["--migrate"], {"migrate": True}),
    "remove_first": (["--remove-first"], {"remove_first": True}),
    "scale_in": (["--scale-in", "-a"], {"scale_in": ("-a",)}),
    "scale_out": (["--scale-out", "2"], {"scale_out": 2}),
    "scale_out_every_ms": (["--scale-out-every", "1m"], {"scale_out_every_ms": 60_000}),
    "target_size": (["--target-size", "9"], {"target_size": 9}),
    "pre_registered": (["--pre-registered", "a,b"], {"pre_registered": ("a", "b")}),
    "remove": (["--remove", "a"], {"remove": ("a",)}),
    "session_timeout_ms": (["--session-timeout", "30s"], {"what_if": WhatIf(session_timeout_ms=30_000)}),
    "rebalance_timeout_ms": (["--rebalance-timeout", "5m"], {"what_if": WhatIf(rebalance_timeout_ms=300_000)}),
    "heartbeat_interval_ms": (["--heartbeat-interval", "3s"], {"heartbeat_interval_ms": 3_000}),
    "assignor": (["--assignor", "range"], {"what_if": WhatIf(assignor="range")}),
    "library": (["--library", "sarama"], {"what_if": WhatIf(library="sarama")}),
    "membership": (["--as", "dynamic"], {"what_if": WhatIf(membership=Membership.DYNAMIC)}),
    "protocol": (["--protocol", "consumer"], {"what_if": WhatIf(protocol=GroupProtocol.CONSUMER)}),
    "settings": (["--set", "broker.group.max.size=3"], {"settings": {"group.max.size": "3"}}),
    "kafka_version": (["--kafka-version", "3.9+new"], {"kafka_version": BrokerVersion.parse("3.9+new")}),
}
COMMANDS = (("simulate-bounce",), ("plan",), ("drain",), ("rollout",), ("history", "simulate-fleet"))
#: Options with the same names that are about something else.
OTHERS = {
    ("plan", "--max-unavailable"): "the most of all ways that are tried",
    ("plan", "--pause"): "those to try",
    ("drain", "--match"): "members of every group, however they stop",
    ("drain", "--match-members"): "the same",
    ("drain", "--session-timeout"): "of groups whose own is not known",
    ("simulate-fleet", "--match"): "groups",
    ("simulate-fleet", "--session-timeout"): "of a history, by group",
}


@pytest.fixture(scope="module")
def commands():
    app.registered_commands.clear()
    app.registered_groups.clear()
    for name in sorted({words[0] for words in COMMANDS}):
        register(name)
    root = typer.main.get_command(app)
    found = {}
    for words in COMMANDS:
        command = root
        for word in words:
            command = command.commands[word]
        found[words[-1]] = command
    yield found
    app.registered_commands.clear()
    app.registered_groups.clear()


def taken(command):
    """{parameter of a bounce: its option} of a command."""
    by_name = {name: field for field, row in PLAN_OPTIONS.items() for name in row.names}
    options = [each for each in command.params if isinstance(each, click.Option)]
    return {
        by_name[name]: option
        for option in options
        for name in option.opts
        if name in by_name and (command.name, name) not in OTHERS
    }


def test_each_option_has_one_definition(commands):
    defaults = {"unit": "auto", "restart_time_ms": "10s", "stop": "clean", "scale_out_every_ms": "0s"}
    seen = set()
    for command in commands.values():
        for field, option in taken(command).items():
            row = PLAN_OPTIONS[field]
            assert {*option.opts} == {*row.names}, (command.name, field)
            assert (option.help, option.metavar) == (row.help, row.kind.metavar), (command.name, field)
            is_drain = (command.name, field) == ("drain", "restart_time_ms")  # who is drained stays away by default
            default = None if is_drain else defaults.get(field, False if row.kind.metavar is None else None)
            assert option.default in (default, [] if default is None else default), (command.name, field)
            seen.add(field)
    assert seen == PLAN_OPTIONS.keys() == MEANINGS.keys()
    assert {*taken(commands["simulate-bounce"])} == PLAN_OPTIONS.keys()
    assert {*taken(commands["drain"])} == {"restart_time_ms", "stop", "assignor", "library", "settings"}
    assert {*taken(commands["simulate-fleet"])} == {"restart_time_ms", "settings"}
    assert {*taken(commands["plan"])} > {"instance_ids", "everyone", "unit", "session_timeout_ms"}


def test_each_option_means_the_same_in_every_command(commands):
    for command in commands.values():
        for field, option in taken(command).items():
            words, expected = MEANINGS[field]
            with command.make_context(command.name, list(words)) as context:
                values = context.params
            if option.name != field:
                assert (command.name, field) == ("drain", "restart_time_ms")
                values = {field: values[option.name]}
            elif "together" in values and field in ("instance_ids", "member_ids", "patterns", "everyone"):
                expected = {**expected, "rolling": Rolling()}
            request = request_of({each: values[each] for each in PLAN_OPTIONS if each in values})
            assert request == BounceRequest(**expected), (command.name, field)


def test_a_request_in_words_is_the_request(commands):
    """In those of options that stand for themselves; batches have words of their own."""
    command = commands["simulate-bounce"]
    for field, (_, expected) in MEANINGS.items():
        request = BounceRequest(**expected)
        if field in ("rolling", "max_unavailable", "pause_ms", "order"):
            assert words_of(request) == []
            continue
        with command.make_context(command.name, words_of(request)) as context:
            values = context.params
        assert words_of(request_of({each: values[each] for each in PLAN_OPTIONS})) == words_of(request)
        assert bool(words_of(request)) is (field != "together")


def test_the_plan_as_it_was_understood_has_every_parameter():
    """Under its name; those that select members are in `bounce` and `units`."""
    selecting = {"instance_ids", "member_ids", "patterns", "everyone", "unit", "together", "rolling"}
    shown = Plan(bounce=("a",), rolling=Rolling(pause_ms=5), what_if=WhatIf(membership=Membership.STATIC)).to_json()
    assert PLAN_OPTIONS.keys() - selecting - {"membership"} <= shown.keys() == PLAN.keys()
    assert (shown["mode"], shown["pause_ms"], shown["as"]) == ("rolling", 5, "static")


def test_batches_of_one_process_unless_somebody_says_more():
    none = {"rolling": False, "together": False, "max_unavailable": None, "pause_ms": None, "order": None}
    assert request_of({**none, "everyone": True}).rolling == Rolling()
    assert request_of({**none, "scale_in": ["a"]}).rolling is None
    assert request_of({**none, "everyone": True, "together": True}).rolling is None
    assert request_of({"everyone": True}).rolling is None  # a command with another say about batches
    with pytest.raises(UsageError, match="--rolling and --together exclude each other"):
        request_of({**none, "rolling": True, "together": True})
    for words in ({"max_unavailable": 1}, {"pause_ms": "0s"}, {"order": "id"}):
        with pytest.raises(UsageError, match="exclude --together"):
            request_of({**none, **words, "together": True})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"stop": "gently"}, "--stop: 'gently' is not one of clean, leave, crash"),
        ({"restart_time_ms": "10"}, "--restart-time: 10 has no unit"),
        ({"scale_in": ["a,,b"]}, "--scale-in: an id is empty"),
        ({"membership": "x"}, "--as: 'x' is not one of static, dynamic"),
    ],
)
def test_an_error_names_the_option(words, message):
    with pytest.raises(UsageError, match=message):
        request_of(words)
