"""Rebalances that kgm itself caused are explained by its audit log, and others are left as they were."""

from __future__ import annotations

from dataclasses import replace

from kgm.history.row_parts import Who
from kgm.history.rows import RebalanceRow
from kgm.operations.audit.audit_log import AuditLog, default_path, intents, outcomes
from kgm.operations.history.own_removals import audited, own_removals

SENT_AT_S = 1_800_000_000
ROW = RebalanceRow(
    partition=0, offset=7, timestamp=SENT_AT_S * 1000 + 900, leader_epoch=1, group_id="g", group_type="classic",
    from_generation=3, to_generation=4, complete=True, cause="leave", confidence="possible", source="record",
    evidence=("a is gone",),
    who=(Who(seat="a", what="leave", member_id="a-1", client_id="c", client_host="/10.0.0.1"),),
)  # fmt: skip


def removals_with(tmp_path, result, **common):
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    log = AuditLog(default_path(environment), clock=lambda: SENT_AT_S)
    who = [{"group_instance_id": "a", "member_id": "a-1"}]
    named = {"group_id": "g", "cluster_id": "here", "reason": "scale-in"} | common
    log.append(intents("run", who, named))
    log.append(outcomes("run", [{**who[0], "result": result}], named))
    return own_removals(environment)


def test_a_removal_of_kgms_own_is_certain(tmp_path):
    (row,) = audited([ROW], removals_with(tmp_path, "removed"))
    assert (row.cause, row.confidence, row.who[0].what) == ("admin-removal", "certain", "admin-removal")
    assert row.evidence == ("a: kgm removed it at 2027-01-15T08:00:00.000Z (scale-in)", "a is gone")


def test_what_else_happened_keeps_its_confidence(tmp_path):
    removals = removals_with(tmp_path, "removed")
    other = replace(ROW.who[0], seat="b", member_id="b-1")
    for row in (replace(ROW, also=("join",)), replace(ROW, who=(*ROW.who, other))):
        (found,) = audited([row], removals)
        assert (found.cause, found.confidence) == ("leave", "possible")
        assert [each.what for each in found.who] == ["admin-removal", "leave"][: len(row.who)]
        assert len(found.evidence) == 2


def test_other_members_groups_and_results_explain_nothing(tmp_path):
    removals = removals_with(tmp_path / "1", "removed")
    stranger = (replace(ROW.who[0], member_id="a-2"),)
    rows = [replace(ROW, group_id="h"), replace(ROW, who=stranger)]
    assert audited(rows, removals) == rows
    for result, more in (("absent", {}), ("unknown", {}), ("done", {"action": "rollout"})):
        assert removals_with(tmp_path / result, result, **more) == {}
    assert own_removals({"XDG_STATE_HOME": str(tmp_path / "none")}) == {}
