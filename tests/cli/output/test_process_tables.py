"""Processes and threads in tables: one line a process, one line a thread with -o wide and in data formats."""

import csv
import io
from dataclasses import replace

import pytest

from kgm.cli.commands.describe import DescribeView, report
from kgm.cli.output.groups.tables import members_table
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import Report, rendered
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.model.work import MemberWork, UserData
from kgm.operations.groups.description import DescribedGroups
from kgm.operations.groups.sink_tasks import SinkTask

PROCESSES = ("0f0e8a44-0000-4000-8000-000000000001", "0f0e8a44-0000-4000-8000-000000000002")


def thread(process, number, active, standby=()):
    return MemberSnapshot(
        member_id=f"m-{process}-{number}",
        group_instance_id=f"wr-{process}-{number}",
        client_host="10.0.0.1",
        status="stable",
        lag=number,
        work=MemberWork(
            process_id=PROCESSES[process], user_endpoint=f"h{process}:80", active_tasks=active, standby_tasks=standby
        ),
    )


STREAMS = GroupSnapshot(
    group_id="wr",
    type="classic",
    state="Stable",
    protocol_type="consumer",
    assignor="stream",
    is_settled=True,
    members=(
        thread(0, 1, ("0_0", "1_0")), thread(0, 2, ("0_1",), ("1_1",)), thread(1, 1, ("1_1",)), thread(1, 2, ()),
    ),
)  # fmt: skip
CONNECT = GroupSnapshot(
    group_id="connect",
    type="classic",
    state="Stable",
    protocol_type="connect",
    assignor="sessioned",
    rebalance_delay_ms=60_000,
    members=(
        MemberSnapshot(
            member_id="w-1",
            work=MemberWork(user_endpoint="http://w1:8083/", active_tasks=("jdbc-0", "jdbc-1"), connectors=("jdbc",)),
        ),
        MemberSnapshot(
            member_id="w-2", work=MemberWork(user_endpoint="http://w2:8083/", active_tasks=(), connectors=()),
        ),
    ),
)  # fmt: skip


def text(snapshot, output="table", sink_tasks=()):
    table = members_table(snapshot, folds=output == "table", sink_tasks=sink_tasks)
    options = OutputOptions(output=output)
    return rendered(Report(schema="kgm.describe/v1", data={}, tables=[table]), options)


def as_csv(snapshot, sink_tasks=()):
    described = DescribedGroups(groups=iter([snapshot]), sink_tasks=sink_tasks)
    shown = report(described, [], {}, view=DescribeView.MEMBERS)
    return [*csv.DictReader(io.StringIO(rendered(shown, OutputOptions(output="csv"))))]


def test_a_line_for_each_process():
    lines = text(STREAMS).splitlines()
    of_process = {one: [line.split() for line in lines if one in line] for one in PROCESSES}
    ((first,), (second,)) = of_process.values()
    assert first == [PROCESSES[0], "wr-0-1,wr-0-2", "2", "10.0.0.1", "h0:80", "stable", "0_0", "1_0", "0_1", "1_1", "3"]
    assert second == [PROCESSES[1], "wr-1-1,wr-1-2", "2", "10.0.0.1", "h1:80", "stable", "1_1", "-", "3"]
    assert "settled: no rebalance is scheduled" in lines


def test_a_line_for_each_thread():
    wide = text(STREAMS, "wide")
    assert [wide.count(one) for one in PROCESSES] == [2, 2]
    rows = as_csv(STREAMS)
    assert [(row["process_id"], row["active_tasks"], row["standby_tasks"]) for row in rows] == [
        (PROCESSES[0], "0_0 1_0", ""), (PROCESSES[0], "0_1", "1_1"), (PROCESSES[1], "1_1", ""), (PROCESSES[1], "", ""),
    ]  # fmt: skip


SINK_TASK = SinkTask(
    task="jdbc-0", workers="connect", worker_id="w-1", url="http://w1:8083/", sink_group="connect-jdbc", member_id="c"
)


def test_a_sink_connector_in_both_groups():
    lines = text(replace(CONNECT, leader="w-2"), sink_tasks=[SINK_TASK]).splitlines()
    assert [line.split() for line in lines if line.startswith("http")] == [
        ["http://w1:8083/", "unknown", "jdbc", "jdbc-0", "jdbc-1", "connect-jdbc"],
        ["http://w2:8083/", "unknown", "-", "-", "-"],
    ]
    assert "leader: http://w2:8083/" in lines
    members = (MemberSnapshot(member_id="c", client_id="connector-consumer-jdbc-0"),)
    sink = replace(CONNECT, group_id="connect-jdbc", protocol_type="consumer", rebalance_delay_ms=None, members=members)
    *_, row, note = text(sink, sink_tasks=[SINK_TASK]).splitlines()
    assert row.endswith("http://w1:8083/")
    assert note == (
        "members are tasks of the sink connector jdbc of Kafka Connect, which workers of group connect run, by their "
        "client ids"
    )
    (plain,) = as_csv(sink)
    assert (plain["worker_id"], plain["url"]) == ("", "")
    (plain,) = as_csv(sink, [SINK_TASK])
    assert (plain["worker_id"], plain["url"]) == ("w-1", "http://w1:8083/")


def test_a_line_for_each_worker():
    lines = text(CONNECT).splitlines()
    assert [line.split() for line in lines if "8083" in line] == [
        ["http://w1:8083/", "unknown", "jdbc", "jdbc-0", "jdbc-1"], ["http://w2:8083/", "unknown", "-", "-"],
    ]  # fmt: skip
    assert "what was lost with a worker stays unassigned for 1m from the last rebalance" in lines


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"next_rebalance_at": "2026-11-26T09:00:00.000Z", "is_settled": False}, "the next rebalance at 2026-11-26T09:00"),
        ({"next_rebalance_at": "1970-01-01T00:00:00.000Z", "is_settled": False}, "starts the next rebalance immediately"),
        ({"is_settled": False}, "not settled: a member starts another rebalance"),
        ({"members": (*STREAMS.members, MemberSnapshot(member_id="x"))}, "what 1 member run cannot be decoded"),
    ],
)  # fmt: skip
def test_what_is_still_to_come(change, note):
    assert note in text(replace(STREAMS, **change))


def test_consumers_are_shown_as_before():
    plain = replace(STREAMS, assignor="range", is_settled=None, members=(MemberSnapshot(member_id="m"),))
    assert not {"PROCESS", "ACTIVE-TASKS"} & {*text(plain, "wide").split()}


@pytest.mark.parametrize("group", [STREAMS, CONNECT])
def test_it_reads_back(group):
    assert snapshot_from_json(group.to_json()).to_json() == group.to_json()


def test_user_data_is_its_length_and_digest():
    """The digest is the example of FIPS 180; no bytes are no user data."""
    assert UserData.of(b"") is None
    member = MemberSnapshot(member_id="m", user_data=UserData.of(b"abc"))
    assert member.to_json()["assignment_user_data"] == {
        "length": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }  # fmt: skip
