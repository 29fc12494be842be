"""What the doctor finds where the broker does not allow the session timeouts of members any more."""

from dataclasses import replace

from kgm.operations.doctor.findings import Severity
from tests.operations.doctor.test_checks import found, member, names, with_members


def test_members_whose_sessions_the_broker_does_not_allow_any_more():
    """Their JoinGroup is refused (GroupCoordinatorService.joinGroup); the limits themselves are allowed."""
    group = with_members(
        member("seat-1", [0, 1], session_timeout_ms=6_000), member("seat-2", [2, 3], session_timeout_ms=45_000)
    )
    assert found(group, min_session_timeout_ms=6_000, max_session_timeout_ms=45_000) == []
    assert found(min_session_timeout_ms=60_000, max_session_timeout_ms=60_000) == []  # theirs are not known
    (one,) = found(group, min_session_timeout_ms=10_000)
    assert (one.check, one.severity, one.about) == ("rejoins-refused", Severity.WARNING, ("seat-1",))
    assert one.message.startswith("1 of 2 members will be refused with INVALID_SESSION_TIMEOUT")
    (one,) = found(group, min_session_timeout_ms=6_000, max_session_timeout_ms=30_000)
    assert one.about == ("seat-2",)
    (text,) = one.evidence
    assert "at least 6s (group.min.session.timeout.ms) and at most 30s (group.max.session.timeout.ms)" in text
    assert text.endswith("members have 45s")
    on_broker = replace(group, type="consumer", session_timeout_ms=45_000)
    assert "rejoins-refused" not in [check for check, _ in names(on_broker, min_session_timeout_ms=60_000)]
