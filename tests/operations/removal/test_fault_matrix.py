"""Every fault at every request of a removal, held against what the broker has afterwards.

A removal is played once undisturbed, to learn which requests it takes. Then it is played again for each of these
requests and each fault: the request, or its answer, is lost, late, broken, or answered with an error, whether or not the
broker has done what it was asked. Whatever kgm says must be true of the group as the coordinator has it.

`--long` plays every request with every fault; without it the first and the last of each API, before and after the
LeaveGroup, with some of the faults, and the LeaveGroup with all of them."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgm.client import connect
from kgm.model.errors import ErrorCode, KgmError, RefusedError
from kgm.operations.audit.audit_log import AuditLog
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.report import ChangeReport
from kgm.operations.change.result import Result
from kgm.operations.removal import removal
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse
from tests.client.conftest import TOPIC
from tests.client.faults import (
    BlackHole,
    Delay,
    Drip,
    Edit,
    Fault,
    FaultProxy,
    Garbage,
    Pass,
    Raw,
    ResetAfter,
    ResetBefore,
    Truncate,
    WrongCorrelation,
)
from tests.client.joiners import form_group
from tests.selection import is_long, sized

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("nobody_returns")]

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
BUDGET_MS = 1_500
LEAVE = ApiKey.LEAVE_GROUP
HTTP = Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")
TLS_ALERT = Raw(bytes.fromhex("15030300020228"))
FAULTS: dict[str, Fault] = {
    "reset before": ResetBefore(),
    "reset after": ResetAfter(),
    "silence": BlackHole(),
    "silence, done": BlackHole(forward=True),
    "late": Delay(BUDGET_MS * 1.4 / 1000),
    "dripping": Drip(0.002),
    "truncated": Truncate(7),
    "garbage": Garbage(),
    "another correlation id": WrongCorrelation(),
    "99 MiB announced": Raw((99 << 20).to_bytes(4, "big")),
    "2 GiB announced": Raw(b"\x7f\xff\xff\xff"),
    "no length": Raw(b"\0\0\0\0"),
    "HTTP": HTTP,
    "TLS": TLS_ALERT,
}
#: Errors that a LeaveGroup may be answered with as a whole: retriable, final, and unknown ones.
CODES = (
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_GROUP_ID, 999,
)  # fmt: skip


def answered(code: int, *, done: bool) -> Edit:
    """The whole request is answered with an error, although the broker has done it, or without."""
    return Edit(lambda _: LeaveGroupResponse(error_code=code), forward=done)


def member_answered(code: int) -> Edit:
    """Each member is answered with an error, although it was removed."""

    def change(message: LeaveGroupResponse) -> None:
        for row in message.members:
            row.error_code = code

    return Edit(change)


@dataclass(frozen=True)
class Case:
    """A fault at the n-th request of an API."""

    api: ApiKey
    number: int
    fault: Fault
    name: str
    always: bool = False

    def __str__(self) -> str:
        return f"{self.api.name} {self.number}: {self.name}{', every time' if self.always else ''}"


@dataclass(frozen=True)
class Played:
    """What came of one removal: its report or its error, whether the members are still there, and what was sent."""

    report: ChangeReport[MemberResult] | None
    error: KgmError | None
    gone: frozenset[str]
    was_sent: bool
    audit: tuple[tuple[str | None, str], ...]
    requests: tuple[ApiKey, ...]


def play(server, folder: Path, script: Callable[[FaultProxy], None]) -> Played:
    """A group of three; two of its members are removed through a proxy that misbehaves."""
    group = f"g-{uuid.uuid4().hex[:10]}"
    joiners = form_group(server, group, ["a", "b", "c"], TOPIC)
    log = AuditLog(folder / group / "audit.jsonl")
    report = error = None
    with FaultProxy((server.host, server.port)) as proxy:
        script(proxy)
        request = RemovalRequest(
            group_id=group, instance_ids=("a", "b"), assume_stopped=True, guard_window_ms=0, reason="why"
        )
        try:
            with connect(proxy.bootstrap, timeout_ms=BUDGET_MS) as cluster:
                prepared = removal.prepare(cluster, request)
                report = removal.execute(cluster, prepared, operator=ALICE, audit=log)
        except KgmError as raised:
            error = raised
        seen = tuple(one.api for one in proxy.seen)
        proxy.cut()
    ids = {one.instance_id: one.member_id for one in joiners}
    left = server.inspect(lambda coordinator: {one.member_id for one in coordinator.group(group).members})
    for joiner in joiners:
        joiner.close()
    audit = tuple((one.group_instance_id, one.result) for one in log.read().removals)
    return Played(
        report=report, error=error, gone=frozenset(name for name, member_id in ids.items() if member_id not in left),
        was_sent=LEAVE in seen, audit=audit, requests=seen,
    )  # fmt: skip


def check(played: Played) -> None:
    """What kgm says is true."""
    gone, report, error = played.gone, played.report, played.error
    assert "c" not in gone
    if report is None:
        assert error is not None
        assert error.exit_code in (1, 4, 5, 6), error
        assert not gone, f"an error says that nothing has changed: {error.message} {error.facts}"
        assert all(result == "failed" for _, result in played.audit)
        assert bool(played.audit) or not played.was_sent
        return
    assert played.was_sent or not report.has_changed
    by_name = {one.target.id: one for one in report.results}
    assert set(by_name) == {"a", "b"}
    for name, one in by_name.items():
        match one.result:
            case Result.REMOVED:
                assert name in gone, one
            case Result.FAILED | Result.REFUSED | Result.RETURNED:
                assert name not in gone, one
            case Result.ABSENT:  # a broker that answers so at once says that somebody else removed it
                assert name in gone, one
                gone -= {name}
            case Result.UNKNOWN:
                pass
            case Result.PLANNED:
                pytest.fail(f"{name} is only planned")
    if report.exit_code == 0:
        assert gone == {"a", "b"}
    if report.exit_code not in (0, 7):
        assert not gone, report
    assert [result for _, result in played.audit] == [str(one.result) for one in report.results]


@pytest.fixture(scope="module")
def undisturbed(server, tmp_path_factory):
    """The requests of a removal, in order."""
    played = play(server, tmp_path_factory.mktemp("audit"), lambda _: None)
    assert played.report is not None
    assert played.report.exit_code == 0
    check(played)
    return played.requests


def cases(requests: tuple[ApiKey, ...]) -> list[Case]:
    """Every fault at the requests that count."""
    leave_at = requests.index(LEAVE)
    found: list[Case] = []
    for api in dict.fromkeys(requests):
        places = [at for at, one in enumerate(requests) if one == api]
        before, after = [at for at in places if at < leave_at], [at for at in places if at >= leave_at]
        chosen = {*before[:1], *before[-1:], *after[:1], *after[-1:]}
        if is_long():
            chosen = set(places)
        for at in sorted(chosen):
            # Without `--long`, a third of the faults at each request but the LeaveGroup, others at each.
            every = [*FAULTS.items()] if is_long() or api == LEAVE else [*FAULTS.items()][at % 3 :: 3]
            found += [Case(api, places.index(at), fault, name) for name, fault in every]
    for code, done, always in itertools.product(CODES, (False, True), (False, True)):
        name = f"{code!s} {'although done' if done else 'and not done'}"
        found.append(Case(LEAVE, 0, answered(int(code), done=done), name, always))
    found += [Case(LEAVE, 0, FAULTS[name], name, always=True) for name in FAULTS]
    for code in (0, 25, 82, 16, 30, 999):
        found.append(Case(LEAVE, 0, member_answered(code), f"members: {code}"))
    return found


def test_whatever_goes_wrong_kgm_says_what_the_broker_has(server, undisturbed, tmp_path):
    """One by one in threads, since most of it is waiting. All that fail are told."""

    def run(case: Case) -> str | None:
        def script(proxy: FaultProxy) -> None:
            if case.always:
                proxy.always(case.api, case.fault)
            else:
                proxy.script(case.api, *[Pass()] * case.number, case.fault)

        played = None
        try:
            played = play(server, tmp_path, script)
            check(played)
        except AssertionError as failure:
            said = played and (
                played.error or [(one.target.id, str(one.result), one.note) for one in played.report.results]
            )
            return f"{case}: {failure}\n    {said!r}; gone: {sorted(played.gone) if played else '?'}"
        return None

    chosen = cases(undisturbed)
    assert len(chosen) > sized(120, 200)
    with ThreadPoolExecutor(max_workers=12) as pool:
        failures = [one for one in pool.map(run, chosen) if one is not None]
    assert failures == [], f"{len(failures)} of {len(chosen)}\n" + "\n".join(failures)


def test_the_check_can_fail():
    """A report that says `removed` of a member that is there, and an error that says nothing changed."""
    with pytest.raises(AssertionError, match="nothing has changed"):
        check(Played(None, KgmError("x"), frozenset({"a"}), was_sent=True, audit=(("a", "failed"),), requests=()))
    with pytest.raises(AssertionError):
        check(Played(None, RefusedError("x"), frozenset({"c"}), was_sent=False, audit=(), requests=()))
