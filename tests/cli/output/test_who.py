"""The signs before the members of a rebalance or an event: only who is gone has the minus."""

import pytest

from kgm.cli.output.history.words import who_text
from kgm.history.in_process import derive_records
from kgm.history.reconstruct.classic_snapshots import ChangeKind
from kgm.history.row_parts import Involvement, Who
from kgm.history.rows import RebalanceRow
from kgm.history.store.query import RowFilter
from kgm.operations.history.own_removals import _GONE
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.frameworks.kafkas_classes import recorded
from tests.history.causes.test_framework_causes import START, records, revoking


def text(what):
    return who_text([Who(seat="m", what=what, member_id="m", client_id=None, client_host=None)])


def streams_assignment(next_ms):
    (case, *_) = [
        one for one in recorded()
        if (one["driver"], one["kind"], one["version"]) == ("StreamsOracle", "assignment", 7)
    ]  # fmt: skip
    user_data = bytes.fromhex(case["data"])[:-8] + next_ms.to_bytes(8, "big")
    return encode_assignment(MemberAssignment(partitions={"t": [0]}, user_data=user_data))


@pytest.mark.parametrize(
    ("assignment", "after_ms", "of", "cause"),
    [
        (revoking, 1_000, {"protocol_type": "connect", "protocol": "sessioned"}, "cooperative-round"),
        (
            lambda: streams_assignment(0),
            1_000,
            {"protocol_type": "consumer", "protocol": "stream"},
            "cooperative-round",
        ),
        (
            lambda: streams_assignment(START + 600_000),
            600_500,
            {"protocol_type": "consumer", "protocol": "stream"},
            "probing",
        ),
    ],
    ids=["Connect", "Streams", "probing"],
)
def test_a_member_that_stayed_and_joined_again_is_not_shown_as_gone(assignment, after_ms, of, cause):
    """Their records show the same member before and after."""
    rows = derive_records(records(assignment(), after_ms, **of)).rows(RebalanceRow, RowFilter())
    last = max(rows, key=lambda row: row.offset)
    assert (last.cause, last.members_before, last.members_after, last.left) == (cause, 1, 1, 0)
    assert who_text(last.who) == "m"


def test_the_minus_is_for_every_way_to_leave_and_for_nothing_else():
    gone = {one for one in Involvement if text(one.value) == "-m"}
    assert gone == {Involvement.LEFT, *(Involvement(cause.value) for cause in _GONE)}
    assert text("a word of a newer kgm") == "m"


def test_every_change_of_a_member_has_a_word():
    assert {kind.value for kind in ChangeKind} <= {one.value for one in Involvement}
