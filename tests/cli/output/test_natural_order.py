"""Names with numbers sort by number in every format: svc-2 before svc-10."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from kgm.cli.commands.describe import DescribeView, report
from kgm.cli.output.contracts.diff import comparison_json
from kgm.cli.output.contracts.groups import snapshot_json
from kgm.cli.output.contracts.watch import verdict_json
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import rendered
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.operations.diff.comparison import compare_snapshots
from kgm.operations.export.collector import Collection
from kgm.operations.export.families import families
from kgm.operations.export.series import ExportedGroup, GroupSeries
from kgm.operations.groups.description import DescribedGroups
from kgm.operations.watch.verdict import WatchVerdict
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan
from tests.simulation.groups import made_up

NAMES = [f"svc-{number}" for number in range(1, 13)]


def group(*, names=NAMES, generation=1) -> GroupSnapshot:
    members = [
        MemberSnapshot(
            member_id=f"{name}-{generation}", group_instance_id=name, topics=("t",), assignment={"t": (number,)},
            status="stable" if generation == 1 else "away",
        )
        for number, name in enumerate(names)
    ]  # fmt: skip
    offsets = [
        OffsetSnapshot("t", number, 0, 5, 5, member.group_instance_id, member.member_id)
        for number, member in enumerate(members)
    ]
    random.Random(1).shuffle(members)
    return GroupSnapshot(group_id="svc", type="classic", state="Stable", members=tuple(members), offsets=tuple(offsets))


def playable(**changes) -> GroupSnapshot:
    made = made_up(12, 30, **changes)
    return replace(
        made, members=tuple(replace(one, group_instance_id=name) for one, name in zip(made.members, NAMES, strict=True))
    )


@pytest.mark.parametrize("text_format", ["json", "ndjson"])
def test_members_in_json(text_format):
    shown = report(DescribedGroups(groups=iter([group()])), [], {}, view=DescribeView.MEMBERS)
    text = rendered(shown, OutputOptions(output=text_format))
    rows = (
        json.loads(text)["data"]["groups"][0]["members"]
        if text_format == "json"
        else [*map(json.loads, text.splitlines())]
    )
    assert [row["group_instance_id"] for row in rows] == NAMES


def test_partitions_in_json():
    offsets = tuple(OffsetSnapshot(name, 0, 0, 5, 5, None, None) for name in sorted(NAMES))
    assert [row["topic"] for row in snapshot_json(replace(group(), offsets=offsets))["offsets"]] == NAMES


@pytest.mark.few(1)
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_a_snapshot_predicts_the_same_in_any_order_of_its_members(assignor):
    """What `describe -o json` prints is what other commands read: the broker's order is in `listed_at`, and without it
    the order of the file does not count."""
    made = playable(assignor=assignor)
    plan = Plan(scale_in=("svc-2", "svc-10"), restart_time_ms=2_000)
    for known in (made, replace(made, members=tuple(replace(one, listed_at=None) for one in made.members))):
        written = snapshot_json(known)
        shuffled = written | {"members": random.Random(2).sample(written["members"], 12)}
        as_described = snapshot_from_json(known.to_json())
        expected = simulate(as_described, plan, draws=2).to_json()
        for one in (written, shuffled):
            assert snapshot_from_json(one) == as_described
            assert simulate(snapshot_from_json(one), plan, draws=2).to_json() == expected


def test_owners_after_a_bounce():
    shown = simulate(playable(), Plan(bounce=("svc-1",), restart_time_ms=2_000), draws=2).to_json()
    assert [*shown["final_assignment"]] == NAMES


def test_what_changed():
    (come,) = compare_snapshots([group(names=[])], [group()]).groups
    (gone,) = compare_snapshots([group()], [group(names=[])]).groups
    (back,) = compare_snapshots([group()], [group(generation=2)]).groups
    found = comparison_json(come)
    assert [one["group_instance_id"] for one in found["members_come"]] == NAMES
    assert [one["to"] for one in found["moves"]] == NAMES
    assert [one["group_instance_id"] for one in comparison_json(gone)["members_gone"]] == NAMES
    found = comparison_json(back)
    assert [one["group_instance_id"] for one in found["members_replaced"]] == NAMES
    assert [one["identity"] for one in found["statuses_changed"]] == NAMES


def test_series():
    series = GroupSeries(most=1_000)
    series.add(ExportedGroup(snapshot=group(), rebalances=0, handovers=0))
    collected = Collection(at_s=1.0, duration_s=0.1, is_up=True, cluster_id="c", series=series)
    (lag,) = [one for one in families(collected) if one.name == "kgm_member_lag"]
    assert [row.labels["group_instance_id"] for row in lag.samples] == NAMES


def test_members_that_were_replaced_during_a_watch():
    verdict = WatchVerdict(
        group_id="svc", reached=None, breach=None, missing=(), looks=2, rebalances=0, rebalances_doubt=None,
        moved_partitions=0, handovers=0, handovers_exact=True, moves=(), replaced=tuple(sorted(NAMES)), generation=1,
        latest=None,
    )  # fmt: skip
    assert verdict_json(verdict)["replaced"] == NAMES
