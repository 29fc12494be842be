"""What the doctor takes from the audit log of this machine."""

from __future__ import annotations

import pytest

from kgm.operations.audit.audit_log import AuditLog, default_path, intents, outcomes
from kgm.operations.doctor.known_removals import KnownRemoval, known_removals

SENT_AT_S = 1_800_000_000.5


@pytest.fixture
def environment(tmp_path):
    return {"XDG_STATE_HOME": str(tmp_path)}


def removed(environment, name, result, **common):
    log = AuditLog(default_path(environment), clock=lambda: SENT_AT_S)
    who = [{"group_instance_id": name, "member_id": f"{name}-1"}]
    named = {"group_id": "g", "cluster_id": "here"} | common
    log.append(intents(name, who, named))
    if result is not None:
        log.append(outcomes(name, [{**who[0], "result": result}], named))


def test_members_that_were_removed_or_may_have_been(environment):
    for name, result in (("a", "removed"), ("b", "refused"), ("c", "returned"), ("d", None), ("e", "absent")):
        removed(environment, name, result)
    at_ms = round(SENT_AT_S * 1000)
    assert known_removals(environment) == tuple(
        KnownRemoval(cluster_id="here", group_id="g", group_instance_id=name, at_ms=at_ms) for name in ("a", "c", "d")
    )


def test_a_member_that_a_rollout_has_restarted_was_not_removed(environment):
    removed(environment, "a", "done", action="rollout")
    removed(environment, "b", None, action="rollout")
    assert known_removals(environment) == ()


def test_removals_of_other_groups_and_clusters(environment):
    removed(environment, "a", "removed")
    (one,) = known_removals(environment)
    assert one.is_of("here", "g")
    assert one.is_of(None, "g")
    assert not one.is_of("elsewhere", "g")
    assert not one.is_of("here", "h")


def test_without_a_log_there_are_none(environment):
    assert known_removals(environment) == ()
    default_path(environment).parent.mkdir()
    default_path(environment).mkdir()
    assert known_removals(environment) == ()
