"""Each reading command while the brokers answer all requests of one API with errors, or half of what these ask for.

What a command then says either fails, or is what it says undisturbed but for what is unknown, and it tells that something
is. Nothing that was not read may look like nothing there is, or like another value. APIs are those that the command uses
when it is not disturbed; error codes are set wherever the answer has one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kgm.cli.main import run
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey
from kgm.protocol.struct import Struct
from kgm.server import serve_in_thread
from tests.cli.environment import forget_settings
from tests.client.faults import Edit, FaultProxy, Pass
from tests.client.joiners import form_group
from tests.kafka.records import produce
from tests.selection import sized

pytestmark = pytest.mark.slow
GROUP, EMPTY, OTHER = "orders-app", "left", "payments-app"
COMMANDS: Final = {
    "list": ["list"],
    "top": ["top", "--once"],
    "list --lag": ["list", "--lag"],
    "list --topic": ["list", "--topic", "orders"],
    "describe": ["describe", GROUP, "--offsets"],
    "describe --all-groups": ["describe", "--all-groups", "--offsets"],
    "remove-members": ["remove-members", GROUP, "-i", "a", "--dry-run", "--assume-stopped", "--guard-window", "0s"],
    "simulate-bounce": ["simulate-bounce", GROUP, "-i", "a", "--restart-time", "5s", "--draws", "1"],
    "drain": ["drain", "--client-id", "*", "--draws", "1"],
    "plan": ["plan", GROUP, "--restart-time", "5s", "--draws", "1", "--budget", "10ms"],
    "rollout": ["rollout", GROUP, "-i", "a", "--exec", "true", "--dry-run", "--draws", "1"],
    "doctor": ["doctor", "--window", "0s"],
    "config test": ["config", "test", "-g", GROUP],
}
#: Where documents tell what is not known, or what they rest on.
TELLING: Final = {"unread", "caveats", "notes", "skipped", "warnings", "errors", "evidence", "checks", "reason", "why"}
#: A finding that tells it.
UNAVAILABLE: Final = "coordinator-unavailable"
#: Predictions rest on what is assumed where it could not be read: they may become others if that is told.
PREDICTING: Final = {"simulate-bounce", "drain", "plan", "rollout"}
#: Documents that tell it; of others only stderr may.
COMPLETE: Final = {"list", "top", "list --lag", "list --topic", "describe", "describe --all-groups", "doctor"}
#: What differs from one run to the next; of the others it counts whether it is known.
NOISY: Final = {"generated_at"}
TIMES: Final = {"read_at", "rebalances_since", "lag_ms", "commit_age_ms", "commit_age_least_ms"}
#: READ on `__consumer_offsets` is optional; without it these are null.
WITHOUT_READ: Final = {"generation", "leader", "session_timeout_ms", "rebalance_timeout_ms"}
Leaves = dict[tuple[str, ...], Any]


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultProxy]:
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"orders": 4, "payments": 2}, settings=settings) as server:
        joiners = form_group(server, GROUP, ["a", "b"], "orders")
        for place, joiner in enumerate(joiners):
            assert joiner.commit(place, 1) == 0
        (gone,) = form_group(server, EMPTY, ["c"], "orders")
        assert [gone.commit(partition, 0) for partition in range(4)] == [0, 0, 0, 0]
        joiners += [gone, *form_group(server, OTHER, ["d", None], "payments")]
        produce(server.bootstrap, "orders", [b"x"] * 12, range(4))
        with FaultProxy((server.host, server.port)) as running:
            yield running
        for joiner in joiners:
            joiner.close()


@pytest.fixture
def kgm(monkeypatch, capsys):
    """Runs kgm here: (exit code, the leaves of its document, lines on stderr)."""
    forget_settings(monkeypatch)

    def ask(*words: str) -> tuple[int, Leaves, list[str]]:
        code = run((*words, "-o", "json", "--timeout", "2s"))
        said = capsys.readouterr()
        document = json.loads(said.out) if said.out else {}
        return code, dict(leaves(document)), said.err.splitlines()

    return ask


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every value with the keys to it; rows of a list by what they are about, or by their number."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in NOISY:
                yield from leaves(one, (*path, key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            name = str(one) if path[-1:] == ("groups",) and isinstance(one, str) else name_of(one)
            yield from leaves(one, (*path, name or str(number)))
    elif path[-1] in TIMES:
        yield path, None if value is None else "known"
    else:
        yield path, value


def name_of(row: object) -> str:
    if not isinstance(row, dict):
        return ""
    return "/".join(
        str(row[key]) for key in ("group_id", "check", "member_id", "topic", "partition", "step") if key in row
    )


def structs(one: Struct, depth: int = 0) -> Iterator[tuple[int, Struct]]:
    """A message and all structs in it, each with how deep it is."""
    yield depth, one
    for name, *_ in one.FIELDS:
        inner = getattr(one, name)
        for each in inner if isinstance(inner, list) else [inner]:
            if isinstance(each, Struct):
                yield from structs(each, depth + 1)


def spoiled(code: int, *, rest: int) -> Edit:
    """Of the innermost structs with an error code, each whose number has this rest by 2 is an error, or all (-1)."""

    def change(message: Any) -> None:
        with_code = [(depth, one) for depth, one in structs(message) if hasattr(one, "error_code")]
        depth = max((depth for depth, _ in with_code), default=0)
        rows = [one for at, one in with_code if at == depth]
        for number, row in enumerate(rows):
            if rest in (-1, number % 2):
                row.error_code = code
                empty(row)

    return Edit(change)


def empty(row: Struct) -> None:
    """What a broker leaves in a row that is an error."""
    for name, *_ in row.FIELDS:
        if isinstance(getattr(row, name), list):
            setattr(row, name, [])
        elif name in ("committed_offset", "offset"):
            setattr(row, name, -1)
        elif name == "group_state":
            setattr(row, name, "")


SPOILS: Final = {
    "all": spoiled(ErrorCode.UNKNOWN_SERVER_ERROR, rest=-1),
    "first of two": spoiled(ErrorCode.UNKNOWN_SERVER_ERROR, rest=0),
    "second of two": spoiled(ErrorCode.UNKNOWN_SERVER_ERROR, rest=1),
    "denied": spoiled(ErrorCode.TOPIC_AUTHORIZATION_FAILED, rest=-1),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_answered_is_told(command, proxy, kgm):
    words = [*COMMANDS[command], "-b", proxy.bootstrap]
    del proxy.seen[:]
    code, whole, said = kgm(*words)
    assert code in (0, 8), said
    assert whole
    apis = {one.api for one in proxy.seen} - {ApiKey.API_VERSIONS}
    assert apis
    problems = []
    for number, api in enumerate(sorted(apis)):
        for name, spoil in sized([*SPOILS.items()][number % 2 :: 2], [*SPOILS.items()]):
            proxy.always(api, spoil)
            shown = whole
            if (api, name) == (ApiKey.FETCH, "denied") and command in COMPLETE:
                shown = {path: value for path, value in whole.items() if path[-1] not in WITHOUT_READ}
            found = wrong(kgm(*words), code, shown, said, command)
            problems += [f"{api.name}, {name}: {one}" for one in found]
        proxy.always(api, Pass())
    assert not problems


def wrong(
    played: tuple[int, Leaves, list[str]], code: int, whole: Leaves, said: list[str], command: str
) -> Iterator[str]:
    """What is wrong about a disturbed run, beside the undisturbed one."""
    got, seen, errors = played
    news = set(errors) - set(said)
    if got not in (0, 8):
        if not any(line.startswith("error: ") for line in news):
            yield f"exit {got} without an error"
        return
    telling = {path for path in seen if TELLING & {*path} or any(UNAVAILABLE in part for part in path)}
    told = {path for path in telling if path not in whole or seen[path] != whole[path]}
    lost = {path for path, value in whole.items() if value is not None and seen.get(path) is None}
    for path in () if command in PREDICTING and (told or news) else sorted(seen.keys() - told):
        if seen[path] is not None and seen[path] != whole.get(path):
            yield f"{'.'.join(path)}: {whole.get(path)!r} became {seen[path]!r}"
    if (lost or got != code) and not told and (command in COMPLETE or not news):
        yield f"not told, exit {got}: {sorted('.'.join(path) for path in lost)[:8]}"
