"""What `explain` says about one rebalance."""

import pytest

from kgm.cli.output.history.rebalance_detail import rebalance_detail
from kgm.history.rows import RebalanceRow


@pytest.mark.parametrize(("group_type", "had"), [("classic", "had an owner"), ("consumer", "were assigned")])
def test_what_the_count_of_moves_compares(group_type, had):
    """In a consumer group it compares target assignments: a member may be gone before it has what it was given."""
    row = RebalanceRow(
        partition=0, offset=9, timestamp=1_700_000_000_000, leader_epoch=0, group_id="g", group_type=group_type,
        from_generation=4, to_generation=5, lost_rounds=0, moved=2, kept=4, complete=True, cause="leave",
        confidence="certain", source="log",
    )  # fmt: skip
    (text,) = [cells[1] for cells in rebalance_detail(row, ()).rows if cells[0] == "moved"]
    assert text == f"2 of 6 partitions that {had} before and after"
