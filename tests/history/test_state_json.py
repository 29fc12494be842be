"""What is kept between two runs: the same after a way through JSON, also if an older kgm wrote it."""

from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from kgm.history.facts.consumer_state import ConsumerGroupState, LoggedMemberState
from kgm.history.partitions import GroupState
from kgm.history.row_parts import Who
from kgm.history.rows import OwnerRow, RebalanceRow
from kgm.history.state_json import dump_state, json_name, load_state


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Inner:
    data: bytes
    colour: Colour | None = None


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner
    by_name: dict[str, Inner] = field(default_factory=dict)
    pairs: list[tuple[str, Inner]] = field(default_factory=list)
    numbers: tuple[int, ...] = ()
    renamed: int | None = field(default=None, metadata=json_name("old"))


OUTER = Outer(
    inner=Inner(data=b"\0\xff", colour=Colour.RED), by_name={"a": Inner(data=b"")}, pairs=[("b", Inner(data=b"x"))],
    numbers=(1, 2), renamed=7,
)  # fmt: skip


def test_a_state_is_the_same_after_json():
    text = dump_state(OUTER)
    assert load_state(Outer, text) == load_state(Outer, text.decode()) == OUTER
    assert b'"old":7' in text
    found = load_state(Outer, text)
    assert (type(found.pairs[0]), type(found.numbers), found.inner.colour) == (tuple, tuple, Colour.RED)


def test_names_that_are_missing_or_not_known():
    assert load_state(Outer, '{"inner":{"data":{"$bytes":""},"since":2},"gone":1}') == Outer(inner=Inner(data=b""))
    with pytest.raises(TypeError, match="inner"):
        load_state(Outer, "{}")


#: What kgm 0.1.0 kept of two groups, shortened.
OLD_CLASSIC = """{"gaps":1,"restarts":{"gone":{"ia":[{"seat":"a","member_id":"a-1","at":5,"offset":9,"session":10000,
"down_min":3,"down_max":4}]},"absences":[[120,1,1]]},"classic":{"leader_epoch":null,"timestamp":7,"session":10000,
"seats":{"a":{"partition":0,"group_id":"g","group_type":"classic","seat":"a","member_id":"a-2","group_instance_id":"a",
"client_id":"c","client_host":"h","session_timeout_ms":10000,"from_offset":1,"from_timestamp":2,"from_generation":3,
"known_from":true,"to_offset":null}},"owners":[{"partition":0,"group_id":"g","group_type":"classic","topic":"t",
"topic_id":null,"topic_partition":0,"place":"t","seat":"a","member_id":"a-2","from_offset":1,"from_timestamp":2,
"from_generation":3,"known_from":true,"exact":false}],"commits":[["t",0,[1,2,3]]],"alarms":{"raised":{},
"times":{"ra":[[5,"a-2"]]},"strangers":{"b":4}},"days":{"0":{"rebalances":1,"lost_rounds":0,"absorbed":0,
"stopped_partition_ms_min":0,"stopped_partition_ms_max":0,"moved":0,"joined":1,"left":0,"replaced":0,
"causes":{"join":1},"sizes":{"2":1}}},"holes":[["t",1]],"recent":[{"partition":0,"offset":1,"timestamp":2,
"leader_epoch":null,"group_id":"g","group_type":"classic","from_generation":0,"to_generation":1,"lost_rounds":0,
"moved":0,"kept":0,"complete":true,"cause":"join","confidence":"certain","also":[],"who":[{"seat":"a","what":"joined",
"member_id":"a-2","client_id":"c","client_host":"h"}],"evidence":["a is new"],"source":"log","reason":null,
"inferred_cause":"join","inferred_confidence":"certain","sync_ms":1,"protocol":"range","members_before":0,
"members_after":1,"joined":1,"left":0,"replaced":0,"assigned":1,"stopped_min_ms":1,"stopped_max_ms":null,
"stopped_partition_ms_min":1,"stopped_partition_ms_max":null}]}}"""
OLD_CONSUMER = """{"gaps":0,"restarts":{"gone":{},"absences":[]},"consumer":{"members":{"m":{"instance":null,
"client_id":"c","host":"h","topics":["t"],"regex":"","assignor":null,"rebalance":300000,"at":5,"session":null,
"away":null,"unrevoked":null,"rack":null}},"current":{"m":{"epoch":2,"state":"stable","assigned":[["00ff",1]],
"pending":[]}},"target":{"m":[["00ff",1]]},"planned":{"00ff 1":"m"},"group":{"epoch":2,"hash":7,"assigned":2,
"whole":true,"at":5,"lagging":[]},"pending":{"joined":[],"leaving":[{"member_id":"x","at":{"partition":0,"offset":4,
"timestamp":5,"leader_epoch":0,"group_id":"g","group_type":"consumer"},"member":{"instance":"i","client_id":"c",
"host":"h","topics":[],"regex":"","assignor":null,"rebalance":1,"at":1,"session":null,"away":3,"unrevoked":null,
"rack":null},"last":null,"cadence":null,"held":0}],"left":[],"resubscribed":[],"regex":false,"assignor":false,
"broken":false},"owners":{"open":[["00ff",1,{"partition":0,"group_id":"g","group_type":"consumer","topic":null,
"topic_id":{"$bytes":"AP8="},"topic_partition":1,"place":"AP8","seat":"m","member_id":"m","from_offset":1,
"from_timestamp":1,"from_generation":2,"known_from":true,"exact":true,"to_offset":null}]],
"free":[["00ff",2,5,"m"]],"commits":[]},"seats":{},"days":{},"epochs":[{"partition":0,"offset":1,"timestamp":1,
"leader_epoch":0,"group_id":"g","group_type":"consumer","epoch":2,"metadata_hash":7,"assignment_epoch":null,
"settled_offset":null,"members":1,"complete":true}],"recent":[]}}"""


def test_what_an_older_kgm_kept_of_a_classic_group():
    state = load_state(GroupState, OLD_CLASSIC.replace("\n", ""))
    classic = state.classic
    assert (state.gaps, state.consumer, classic.session_timeout_ms) == (1, None, 10_000)
    assert state.restarts.gone["ia"][0].identity == "a"
    assert state.restarts.absences == [(120, 1, 1)]
    assert (classic.tenures["a"].member_id, classic.owners[0].seat) == ("a-2", "a")
    assert isinstance(classic.owners[0], OwnerRow)
    assert isinstance(classic.recent[0], RebalanceRow)
    assert classic.recent[0].who == (Who(seat="a", what="joined", member_id="a-2", client_id="c", client_host="h"),)
    assert (classic.unassigned, classic.alarms.times) == ([("t", 1)], {"ra": [(5, "a-2")]})
    assert load_state(GroupState, dump_state(state)) == state


def test_what_an_older_kgm_kept_of_a_consumer_group():
    state = load_state(GroupState, OLD_CONSUMER.replace("\n", ""))
    consumer = state.consumer
    assert isinstance(consumer, ConsumerGroupState)
    assert (consumer.group.epoch, consumer.group.metadata_hash, consumer.group.assigned_epoch) == (2, 7, 2)
    assert consumer.current["m"].state is LoggedMemberState.STABLE
    assert consumer.current["m"].owned() == [("00ff", 1)]
    (leaving,) = consumer.pending.leaving
    assert (leaving.record.offset, leaving.member.instance_id, leaving.member.away_since) == (4, "i", 3)
    assert consumer.owners.open[0][2].topic_id == b"\x00\xff"
    assert (consumer.epochs[0].epoch, consumer.members["m"].rebalance_timeout_ms) == (2, 300_000)
    assert load_state(GroupState, dump_state(state)) == state
