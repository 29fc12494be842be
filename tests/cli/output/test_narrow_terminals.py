"""Tables of groups at narrow terminals: they stay tables, with fewer columns, as long as members can be told apart."""

from dataclasses import replace

import pytest

from kgm.cli.output.groups.tables import members_table, offsets_table, state_table
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import table_pieces
from kgm.cli.output.table_text import TableStyle, fold
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, OffsetSnapshot
from kgm.server import serve_in_thread
from tests.cli.output.test_terminal import at_terminal, without_colors
from tests.client.joiners import form_group

UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca42"


def group(*, static):
    """Six members, those in `static` with an instance id."""
    members = [
        MemberSnapshot(
            member_id=f"payments-{at}-{UUID}{at}", group_instance_id=f"payments-{at}" if at in static else None,
            client_id="app", client_host="10.20.30.40", status="stable", assignment={"transactions": (2 * at, 2 * at + 1)}, lag=12_345,
        )
        for at in range(6)
    ]  # fmt: skip
    offsets = [
        OffsetSnapshot(topic="transactions", partition=2 * at, committed=1_000_000, end=1_012_345, lag=12_345,
                       group_instance_id=one.group_instance_id, member_id=one.member_id)
        for at, one in enumerate(members)
    ]  # fmt: skip
    return GroupSnapshot(
        group_id="payments-of-the-north", type="classic", state="Stable", assignor="cooperative-sticky", generation=1234,
        coordinator=CoordinatorNode(id=1, host="kafka-1.example.com", port=9092), members=tuple(members), offsets=tuple(offsets),
    )  # fmt: skip


def drawn(table, width, output="table", headers=True):
    pieces = table_pieces(table, OutputOptions(output=output), TableStyle(width=width, headers=headers))
    return "".join(pieces).splitlines()


MEMBERS = {"static": range(6), "dynamic": (), "mixed": (1, 2)}


@pytest.mark.parametrize("width", [60, 66, 72, 80, 100])
@pytest.mark.parametrize("static", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("make", [members_table, offsets_table, lambda one: state_table([one])])
def test_a_table_stays_a_table(make, static, width):
    snapshot = group(static=static)
    table = make(snapshot)
    lines = drawn(table, width)
    assert max(map(len, lines)) <= width
    (head,) = [line for line in lines if "LAG" in line.split()]
    if make is members_table:
        assert "MEMBER-ID" in head.split() or static == MEMBERS["static"]
        assert "INSTANCE-ID" in head.split() or not static
        assert {"STATUS", "ASSIGNMENT"} <= set(head.split())


def test_what_has_no_room_is_named():
    lines = drawn(members_table(group(static=range(6))), 64)
    (head,) = [line for line in lines if "LAG" in line.split()]
    assert head.split() == ["INSTANCE-ID", "STATUS", "PARTITIONS", "LAG", "ASSIGNMENT"]
    assert lines[-1] == "no room for MEMBER-ID, HOST; -o wide shows all columns"
    assert "payments-3   stable           2  12345  transactions[6-7" in "\n".join(lines)


@pytest.mark.parametrize("make", [members_table, offsets_table])
def test_at_80_columns_a_static_member_takes_one_line(make):
    snapshot = replace(group(static=range(6)), coordinator=None, generation=None)
    assert len(drawn(make(snapshot), 80)) == 9
    assert "no room for MEMBER-ID; -o wide shows all columns" in drawn(make(snapshot), 80)


def test_a_timestamp_is_folded_before_its_time():
    assert fold("2026-11-26T16:59:54.212Z", 16) == ["2026-11-26T", "16:59:54.212Z"]
    assert fold("app-2026-11-26T16:59:54", 16)[0] != "app-2026-11-26T"


def test_columns_without_values_go_first():
    lines = drawn(members_table(group(static=())), 80)
    assert lines[-1] == "no room for INSTANCE-ID; -o wide shows all columns"


def test_wide_and_pipes_show_everything():
    table = members_table(group(static=range(6)))
    for width, output in ((60, "wide"), (None, "table")):
        text = "\n".join(drawn(table, width, output))
        assert "no room" not in text
        assert "MEMBER-ID" in text
        assert "HOST" in text


def test_without_headers_the_same_columns_are_left_out():
    lines = drawn(members_table(group(static=range(6))), 60, headers=False)
    assert UUID not in "".join(lines)
    assert lines[-1].startswith("no room for MEMBER-ID")


def test_where_nothing_fits_each_row_is_a_block_with_everything():
    text = "\n".join(drawn(members_table(group(static=range(6))), 30))
    assert "no room" not in text
    assert "MEMBER-ID" in text


@pytest.mark.slow
def test_at_a_real_terminal_of_70_columns():
    with serve_in_thread(topics={"transactions": 6}) as server:
        joiners = form_group(server, "payments", [f"payments-{at}" for at in range(3)], "transactions")
        code, seen = at_terminal("describe", "payments", "-b", server.bootstrap, columns=70)
        for joiner in joiners:
            joiner.close()
    lines = without_colors(seen).splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 70
    (head,) = [line for line in lines if line.startswith("INSTANCE-ID")]
    assert head.split()[0] == "INSTANCE-ID"
    assert sum(line.startswith("payments-") for line in lines) == 3
    assert any(line.startswith("no room for MEMBER-ID") for line in lines)
