"""Events as lines of text and of JSON."""

from __future__ import annotations

from kgm.cli.output.contracts.watch import event_json, verdict_json
from kgm.cli.output.watch.event_lines import event_line
from kgm.client.offsets_topic.group_tail import RecordedGroup
from kgm.client.poller import PolledGroup
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.watch.watched_group import WatchedGroup

EVIL = "a\x1b]0;x\x07\n[red]"


def group(*members, **more):
    return GroupSnapshot(**{"group_id": "g\u202e", "type": "classic", "state": "Stable", "members": members} | more)


def test_lines_are_clean_and_json_is_exact():
    watched = WatchedGroup("g\u202e")
    member = MemberSnapshot(member_id=EVIL, status="stable", topics=("t",), assignment={"t": (0,)})
    (event,) = watched.observe(PolledGroup(seen=group(member)), 1_700_000_000_000)
    assert event_line(event) == "2023-11-14T22:13:20Z  g\\u202e  watching  classic  Stable  1 member, 0 static"
    emptied = RecordedGroup(at_ms=1, group=group(generation=2, state="Empty"))
    event, *_ = watched.observe(PolledGroup(seen=group(state="Empty"), recorded=(emptied,)), 1_700_000_001_000)
    assert event.identity == EVIL
    assert "\x1b" not in event_line(event)
    assert "\n" not in event_line(event)
    item = event_json(event, watched)
    assert (item["identity"], item["written_at"], item["group_id"]) == (EVIL, "1970-01-01T00:00:00.001Z", "g\u202e")


def test_a_doubtful_count_is_not_exact():
    watched = WatchedGroup("g")
    watched.observe(PolledGroup(seen=group(), log_unreadable_because="no READ"), 0)
    item = verdict_json(watched.verdict(reached=None))
    assert (item["rebalances"], item["rebalances_exact"]) == (0, False)
    assert item["rebalances_doubt"] == "at least: no READ, so rebalances between two polls may be missed"
