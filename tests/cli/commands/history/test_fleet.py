"""`kgm history simulate-fleet` on a real log."""

import pytest

from kgm.history.store.final_state import final_groups
from kgm.history.store.query import RowFilter
from kgm.simulation.fleet import OUT_OF_TIME


def test_every_group_of_the_end_is_played_or_says_why_not(answer, tables):
    costs = answer("simulate-fleet", "--draws", "1")["costs"]
    at_the_end = {each.snapshot.group_id: each.to_json() for each in final_groups(tables, RowFilter())}
    assert {each["group_id"] for each in costs} == at_the_end.keys()
    for each in costs:
        group = at_the_end[each["group_id"]]
        if group["state"] == "Stable" and group["protocol_type"] == "consumer":
            mixed = {member["protocol"] for member in group["members"]} != {group["type"]}
            assert (each["reason"] is not None) == mixed, each
            assert each["members"] == len(group["members"])
        else:
            assert each["reason"]
            assert each["rebalances"] is each["moved_partitions"] is None
    played = [each for each in costs if each["reason"] is None]
    stopped = [each["stopped_partition_ms"]["median"] for each in played]
    assert len(played) >= 25
    assert stopped == sorted(stopped, reverse=True)
    types = {at_the_end[each["group_id"]]["type"] for each in played}
    assert types == {"classic", "consumer"}


@pytest.mark.long
def test_scenarios_a_window_and_a_limit(answer, asked):
    every = answer("rebalances", "ledger")["rebalances"]
    found = answer("simulate-fleet", "ledger", "--until", every[1]["at"], "--scenario", "each,scale-in", "--draws", "1")
    assert {(each["scenario"], each["members"]) for each in found["costs"]} == {("each", 1), ("scale-in", 1)}
    limited = answer("simulate-fleet", "--match", "k8-*", "--limit", "2", "--draws", "1")
    assert len(limited["costs"]) == 2
    assert asked("simulate-fleet", "nobody")[0] == 3
    assert asked("simulate-fleet", "--scenario", "zone")[0] == 2
    assert asked("simulate-fleet", "--draws", "0")[0] == 2


@pytest.mark.long
def test_a_drain_of_a_host(answer, asked, tables):
    members = [
        (each.snapshot.group_id, member)
        for each in final_groups(tables, RowFilter())
        for member in each.snapshot.members
    ]
    host = members[0][1].client_host.removeprefix("/")
    there = {group for group, member in members if member.client_host == f"/{host}"}
    found = answer("simulate-fleet", "--host", host, "--draws", "1")
    assert found["plan"]["scenarios"] == ["drain"]
    assert (found["plan"]["hosts"], found["plan"]["racks"]) == ([host], [])
    assert {each["group_id"] for each in found["costs"]} == there
    assert asked("simulate-fleet", "--rack", "nowhere")[0] == 3
    assert asked("simulate-fleet", "--scenario", "drain")[0] == 2


@pytest.mark.long
def test_without_time_each_group_is_listed_as_missing(answer, asked):
    costs = answer("simulate-fleet", "--match", "k8-*", "--draws", "1", "--timeout", "1ms")["costs"]
    assert costs
    assert {each["reason"] for each in costs} == {OUT_OF_TIME}
    status, text = asked("simulate-fleet", "--match", "k8-*", "--draws", "1", "--timeout", "1ms", "-o", "table")[:2]
    assert status == 0
    assert f"{len(costs)} rows could not be simulated within --timeout" in text
