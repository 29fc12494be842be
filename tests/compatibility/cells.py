"""What each command does on one broker: a function for each row of docs/compatibility.md, in the order in which they
run.

A function returns what the version cannot report, as texts; nothing if it reports everything. It fails if a command
does not do what it must do on every version."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from tests.compatibility.scene import (
    COMPLETING,
    CONSUMER,
    DYNAMIC,
    EMPTY,
    PARTITIONS,
    PREPARING,
    STABLE,
    TOPIC,
    Scene,
)
from tests.kafka.members import wait_settled
from tests.waiting import until

NO_CONSUMER_GROUPS: Final = "no consumer groups (KIP-848) by default before 4.0"
_NO_STATES: Final = "listings have no states before 2.6"
_NO_TYPES: Final = "listings have no types before 3.8: a group's type is known only when it is described"
_NO_SUBSCRIPTIONS: Final = "no subscriptions of members while the group rebalances"
_NO_ASSIGNMENTS: Final = (
    "no assignments of members while the group rebalances, with the coordinator in Scala (before 4.0), so kgm reports no "
    "member as stopped"
)
_PLAIN: Final = "no SCRAM without ZooKeeper before 3.5: tested with PLAIN"
_HEARTBEAT: Final = ("--heartbeat-interval", "300ms")
SCALED: Final = "scaled"
#: A command that creates a file and waits for another one; in Python, because a machine may have no shell.
_ASK: Final = """
import pathlib, sys, time
asked, done = map(pathlib.Path, sys.argv[1:])
asked.touch()
while not done.exists():
    time.sleep(0.1)
"""


class NotHere(Exception):
    """The version does not have what the row is about."""


@dataclass(frozen=True)
class Row:
    """is_quick: it also runs on versions for which only a few commands run."""

    title: str
    play: Callable[[Scene], list[str]]
    is_quick: bool = False


def list_groups(scene: Scene) -> list[str]:
    rows = {row["group_id"]: row for row in scene.json("list")["data"]["groups"]}
    groups = {STABLE, DYNAMIC, EMPTY, PREPARING, COMPLETING, *([CONSUMER] if scene.has_consumer_groups else [])}
    assert groups <= rows.keys()
    lacks = []
    if rows[STABLE]["state"] is None:
        lacks.append(_NO_STATES)
    if rows[STABLE]["type"] is None:
        lacks.append(_NO_TYPES)
    else:
        assert {rows[group]["type"] for group in groups} == {"classic", *(["consumer"] if CONSUMER in groups else [])}
    stable = [row["group_id"] for row in scene.json("list", "--state", "stable")["data"]["groups"]]
    assert {STABLE, DYNAMIC} <= set(stable)
    assert not {EMPTY, PREPARING, COMPLETING} & set(stable)
    return lacks


def describe_stable(scene: Scene) -> list[str]:
    group = scene.group(STABLE)
    assert (group["state"], group["type"], group["assignor"]) == ("Stable", "classic", "range")
    assert [member["group_instance_id"] for member in group["members"]] == ["a", "b", "c"]
    assert sum(len(member["assignment"][TOPIC]) for member in group["members"]) == PARTITIONS
    assert all(member["subscription"]["topics"] == [TOPIC] for member in group["members"])
    assert all(member["lag"] is not None for member in group["members"])
    return []


def describe_empty(scene: Scene) -> list[str]:
    group = scene.group(EMPTY)
    assert (group["state"], group["members"]) == ("Empty", [])
    assert any(row["committed"] for row in group["offsets"])
    return []


def describe_preparing(scene: Scene) -> list[str]:
    return _describe_rebalance(scene, PREPARING, "PreparingRebalance", ["p", "q"])


def describe_completing(scene: Scene) -> list[str]:
    return _describe_rebalance(scene, COMPLETING, "CompletingRebalance", ["p"])


def _describe_rebalance(scene: Scene, group_id: str, state: str, instance_ids: list[str]) -> list[str]:
    group = scene.group(group_id)
    assert group["state"] == state
    assert [member["group_instance_id"] for member in group["members"]] == instance_ids
    assert {member["status"] for member in group["members"]} == {"reconciling"}
    subscribed = [member for member in group["members"] if member["subscription"]["topics"]]
    lacks = [] if len(subscribed) == len(instance_ids) else [_NO_SUBSCRIPTIONS]
    if group_id == PREPARING:  # its first member had all partitions before
        owned = group["members"][0]["assignment"].get(TOPIC, [])
        assert len(owned) in (0, PARTITIONS)
        lacks += [] if owned else [_NO_ASSIGNMENTS]
    return lacks


def describe_unknown(scene: Scene) -> list[str]:
    done = scene.run("describe", "no-such-group")
    assert done.code == 3, done
    assert "group 'no-such-group' does not exist" in done.err
    return []


def describe_consumer(scene: Scene) -> list[str]:
    if not scene.has_consumer_groups:
        raise NotHere(NO_CONSUMER_GROUPS)
    group = scene.group(CONSUMER)
    assert (group["state"], group["type"]) == ("Stable", "consumer")
    assert group["group_epoch"] is not None
    assert [member["group_instance_id"] for member in group["members"]] == ["x", "y"]
    assert all(member["member_epoch"] == group["assignment_epoch"] for member in group["members"])
    assert all(member["target_assignment"] == member["assignment"] for member in group["members"])
    return []


def config_test(scene: Scene) -> list[str]:
    document = scene.json("config", "test", "-g", STABLE)
    assert not document["errors"]
    (versions,) = [check for check in document["data"]["checks"] if check["step"] == "versions"]
    release = ".".join(map(str, scene.release))
    assert release in versions["kafka_versions"], versions
    others = sorted({text.partition("+")[0] for text in versions["kafka_versions"]} - {release})
    lacks = [f"its APIs are those of {' and '.join(others)} too"] if others else []
    if len(set(versions["kafka_versions"])) > len(others) + 1:
        lacks.append("which coordinator runs is not in its APIs: kgm reads the broker's settings for that")
    text = scene.run("config", "test", "-g", STABLE)
    assert text.code == 0
    assert f"Kafka {release}" in text.out or others, text.out
    return lacks


def login(scene: Scene) -> list[str]:
    checks = scene.json("config", "test", "-g", STABLE, is_logged_in=True)["data"]["checks"]
    assert {check["result"] for check in checks} == {"ok"}
    assert STABLE in {row["group_id"] for row in scene.json("list", is_logged_in=True)["data"]["groups"]}
    return [] if scene.mechanism.startswith("SCRAM") else [_PLAIN]


def watch(scene: Scene) -> list[str]:
    done = scene.run("watch", STABLE, "--count", "3", "--interval", "200ms", "--expect-no-moves", "-o", "ndjson")
    assert done.code == 0, done
    assert all(json.loads(line) for line in done.out.splitlines())
    return []


def wait(scene: Scene) -> list[str]:
    assert scene.run("wait", STABLE, "--for", "stable", "--for", "members=3", "--for", "lag<=100000").code == 0
    assert scene.run("wait", EMPTY, "--for", "empty").code == 0
    return []


def doctor(scene: Scene) -> list[str]:
    groups = [STABLE, DYNAMIC, EMPTY, PREPARING, COMPLETING, *([CONSUMER] if scene.has_consumer_groups else [])]
    data = scene.json("doctor", *groups, "--window", "500ms", "--fail-on", "never")["data"]
    assert data["groups"] == sorted(groups)
    assert data["skipped"] == []
    checks = {(finding["group_id"], finding["check"]) for finding in data["findings"]}
    assert (PREPARING, "rebalancing") in checks
    assert ((STABLE, "classic-protocol") in checks) == scene.has_consumer_groups
    return []


def diff(scene: Scene) -> list[str]:
    before = scene.folder / "before.json"
    before.write_text(json.dumps(scene.json("describe", STABLE)))
    assert scene.json("diff", str(before), f"live:{STABLE}", "--exit-code")["errors"] == []
    return []


def simulate(scene: Scene) -> list[str]:
    """Simulates the live group, and a saved snapshot that records the version."""
    live = scene.json("simulate-bounce", STABLE, "--all", *_HEARTBEAT)["data"]
    saved = scene.folder / "saved.json"
    saved.write_text(json.dumps(scene.json("describe", STABLE)))
    recorded = scene.json("simulate-bounce", "--from-file", str(saved), "--all", *_HEARTBEAT)["data"]
    release = ".".join(map(str, scene.release))
    variant = f"{release}+new" if scene.version.endswith("+new") else release
    assert live["plan"]["kafka_version"] in (variant, *_alike(live)), live["plan"]
    assert recorded["plan"]["kafka_version"].partition("+")[0] in (release, *_alike(live)), recorded["plan"]
    (scenario,) = live["scenarios"]
    assert scenario["exact"], scenario["caveats"]
    assert (scenario["rebalances"], scenario["moved_partitions"]) == (0, 0)
    other = scene.json("simulate-bounce", STABLE, "--all", "--kafka-version", "3.3")["data"]
    assert (other["plan"]["kafka_version"], other["plan"]["other_versions"]) == ("3.3", [])
    return []


def _alike(data: Any) -> list[str]:
    """The other versions that the broker could have."""
    return [version.partition("+")[0] for version in data["plan"]["other_versions"]]


def bounce_static(scene: Scene) -> list[str]:
    """A static member restarts: as predicted, nothing moves."""
    before, rebalances = scene.group(STABLE), len(scene.rebalances(STABLE))
    (predicted,) = scene.json(
        "simulate-bounce", STABLE, "--instance-ids", "a", "--restart-time", "2s", *_HEARTBEAT
    )["data"]["scenarios"]  # fmt: skip
    scene.members["a"].close()
    scene.start(STABLE, "a")
    wait_settled([scene.members[name] for name in "abc"], PARTITIONS)
    after = scene.group(STABLE)
    assert predicted["exact"]
    assert predicted["rebalances"] == len(scene.rebalances(STABLE)) - rebalances == 0
    assert _owners(after) == _owners(before) == _sorted(predicted["final_assignment"])
    return []


def bounce_dynamic(scene: Scene) -> list[str]:
    """A dynamic member leaves and a new one joins: as many rebalances as predicted."""
    rebalances = len(scene.rebalances(DYNAMIC))
    member_id = scene.members["dynamic-1"].member_id
    (predicted,) = scene.json(
        "simulate-bounce", DYNAMIC, "--member-ids", member_id, "--restart-time", "3s", *_HEARTBEAT
    )["data"]["scenarios"]  # fmt: skip
    neighbour = scene.members["dynamic-2"]
    scene.members["dynamic-1"].close()
    wait_settled([neighbour], PARTITIONS)
    scene.start(DYNAMIC, None, name="dynamic-1")
    wait_settled([scene.members["dynamic-1"], neighbour], PARTITIONS)
    seen = len(scene.rebalances(DYNAMIC)) - rebalances
    ranges = predicted["ranges"] or {"rebalances": {"min": predicted["rebalances"], "max": predicted["rebalances"]}}
    assert ranges["rebalances"]["min"] <= seen <= ranges["rebalances"]["max"], (seen, predicted)
    return []


def drain(scene: Scene) -> list[str]:
    """`drain` predicts for one member what `simulate-bounce` predicts for its group."""
    data = scene.json("drain", "--client-id", "a")["data"]
    (row,) = [one for one in data["groups"] if one["group_id"] == STABLE]
    (predicted,) = scene.json("simulate-bounce", STABLE, "--scale-in", "a")["data"]["scenarios"]
    assert (row["drained_members"], row["members_left"], row["empty"]) == (["a"], 2, False), row
    assert row["moved_partitions"] == predicted["moved_partitions"] > 0
    return []


def plan(scene: Scene) -> list[str]:
    """Static members that are back in time cause no rebalance; for a longer restart the plan removes them first."""
    words = (
        "plan",
        STABLE,
        *_HEARTBEAT,
        "--draws",
        "2",
        "--pause",
        "0s",
        "--max-unavailable",
        "3",
        "--minimise",
        "rebalances",
    )
    best = scene.json(*words)["data"]["plans"][0]
    assert best["flags"] == ["--together"]
    assert (best["costs"]["rebalances"], best["costs"]["handovers"]) == (0, 0)
    late = scene.json(*words[:-1], "stopped", "--restart-time", "10m")["data"]["plans"][0]
    assert "--remove-first" in late["flags"]
    return []


def rollout(scene: Scene) -> list[str]:
    """A command restarts a static member by asking the test to do it; nothing else happens."""
    asked, done = scene.folder / "asked", scene.folder / "done"
    command = shlex.join([sys.executable, "-c", _ASK, str(asked), str(done)])
    words = ("--restart-time", "5s", *_HEARTBEAT, "--settle", "2s", "--journal", str(scene.folder / "journal.ndjson"))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(scene.json, "rollout", "--yes", STABLE, "-i", "a", *words, "--exec", command)
        try:
            until(lambda: asked.exists() or running.done(), "the command has not run", 60)
            scene.members["a"].close()
            scene.start(STABLE, "a")
        finally:
            done.touch()
        data = running.result()["data"]
    wait_settled([scene.members[name] for name in "abc"], PARTITIONS)
    assert (data["outcome"], data["steps_done"]) == ("done", 1)
    (observed,) = [event["observed"] for event in data["events"] if event["event"] == "observed"]
    assert (observed["rebalances"], observed["rebalances_doubt"], observed["handovers"]) == (0, None, 0)
    return []


def scale_in(scene: Scene) -> list[str]:
    """What it predicts for two pods happens when one stops and the printed command removes it."""
    for name in ("app-0", "app-1"):
        scene.start(SCALED, name)
    wait_settled([scene.members["app-0"], scene.members["app-1"]], PARTITIONS)
    data = scene.json("scale-in", SCALED, "--to", "1")["data"]
    assert [one["group_instance_id"] for one in data["leaving"]] == ["app-1"]
    rebalances = len(scene.rebalances(SCALED))
    scene.members["app-1"].close()
    words = shlex.split(data["commands"]["remove"])
    place = words.index("remove-members")
    words = words[place : words.index("-b")] if "-b" in words else words[place:]
    assert scene.run(*words, "--assume-stopped", "--yes").code == 0
    wait_settled([scene.members["app-0"]], PARTITIONS)
    assert len(scene.rebalances(SCALED)) - rebalances == data["scenario"]["rebalances"] == 1
    return []


def _owners(group: Any) -> dict[str, Any]:
    return _sorted({member["group_instance_id"]: member["assignment"] for member in group["members"]})


def _sorted(owners: dict[str, Any]) -> dict[str, Any]:
    return {name: {topic: sorted(numbers) for topic, numbers in owned.items()} for name, owned in owners.items()}


def refuse_alive(scene: Scene) -> list[str]:
    done = scene.json("remove-members", STABLE, "--instance-ids", "b", "--yes", "--assume-stopped", code=6)
    (result,) = done["data"]["results"]
    assert (result["result"], result["liveness"]["verdict"]) == ("refused", "alive")
    assert [member["group_instance_id"] for member in scene.group(STABLE)["members"]] == ["a", "b", "c"]
    return []


def refuse_in_rebalance(scene: Scene) -> list[str]:
    done = scene.json(
        "remove-members", PREPARING, "--instance-ids", "p", "--yes", "--guard-window", "500ms", code=6
    )  # fmt: skip
    (result,) = done["data"]["results"]
    assert (result["result"], result["liveness"]["verdict"]) == ("refused", "unknown")
    return []


def remove_stopped(scene: Scene) -> list[str]:
    scene.members["c"].crash()
    scene.be_silent()
    done = scene.json("remove-members", STABLE, "--instance-ids", "c", "--yes", "--reason", "decommissioned")
    (result,) = done["data"]["results"]
    assert (result["result"], result["liveness"]["verdict"]) == ("removed", "stopped")
    wait_settled([scene.members["a"], scene.members["b"]], PARTITIONS)
    assert _owners(scene.group(STABLE)).keys() == {"a", "b"}
    freed = {(TOPIC, partition) for partition in result["partitions_freed"][TOPIC]}
    assert freed
    assert freed <= {(move["topic"], move["partition"]) for move in done["data"]["moves_expected"]}
    warned = any("takes no reason" in warning for warning in done["data"]["warnings"])
    assert warned == (scene.release < (3, 2)), done["data"]["warnings"]
    return ["LeaveGroup takes no reason before 3.2"] if warned else []


def history_live(scene: Scene) -> list[str]:
    """The history of the dynamic group: one member starts it, another joins."""
    rows = scene.rebalances(DYNAMIC)
    assert rows
    assert not [row for row in rows if "conver" in str(row)]
    assert {row["group_type"] for row in rows} == {"classic"}
    generation = rows[-1]["generation_after"]
    explained = scene.json("history", "explain", DYNAMIC, "--generation", str(generation))
    assert explained["errors"] == []
    return []


def history_segments(scene: Scene) -> list[str]:
    """The broker's segments show the same as the live topic."""
    live = scene.rebalances(DYNAMIC)
    done = scene.kgm_alone("history", "rebalances", DYNAMIC, "--source", f"segments:{scene.segments()}")
    recorded = done["data"]["rebalances"]
    assert _causes(recorded) == _causes(live)
    return []


def _causes(rows: list[Any]) -> list[Any]:
    return [(row["generation_before"], row["generation_after"], row["cause"], row["confidence"]) for row in rows]


ROWS: Final = (
    Row("`list`", list_groups, is_quick=True),
    Row("`describe`, Stable", describe_stable, is_quick=True),
    Row("`describe`, Empty", describe_empty, is_quick=True),
    Row("`describe`, PreparingRebalance", describe_preparing, is_quick=True),
    Row("`describe`, CompletingRebalance", describe_completing, is_quick=True),
    Row("`describe`, a group that does not exist", describe_unknown, is_quick=True),
    Row("`describe`, consumer group", describe_consumer),
    Row("`config test`, which tells the version", config_test, is_quick=True),
    Row("TLS and SCRAM", login, is_quick=True),
    Row("`watch`", watch),
    Row("`wait`", wait),
    Row("`doctor`", doctor),
    Row("`diff`", diff),
    Row("`simulate-bounce`, live and from a file", simulate, is_quick=True),
    Row("`simulate-bounce`, then a static member restarts", bounce_static, is_quick=True),
    Row("`drain`", drain, is_quick=True),
    Row("`plan`, also with a removal first", plan, is_quick=True),
    Row("`rollout` of one static member", rollout, is_quick=True),
    Row("`scale-in`, and the removal that it prints", scale_in),
    Row("`simulate-bounce`, then a dynamic member restarts", bounce_dynamic),
    Row("`history rebalances`, `history explain`, live", history_live, is_quick=True),
    Row("`history rebalances` of segments", history_segments),
    Row("`remove-members` refuses a live member", refuse_alive),
    Row("`remove-members` refuses during a rebalance", refuse_in_rebalance, is_quick=True),
    Row("`remove-members` removes a stopped member", remove_stopped),
)
