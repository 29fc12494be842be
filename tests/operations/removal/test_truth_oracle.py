"""Whatever goes wrong with a removal, and whatever is seen of it afterwards: what kgm says is what the coordinator has.

A case is a kind of group, a fault of the LeaveGroup, what the later descriptions say, and what happens in between. Row,
audit record and exit code are held to the state of the embedded coordinator. The quick run plays a choice in which every
two values meet; `--long` plays all."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from kgm.client.failures import LostError
from kgm.model.errors import ErrorCode, KgmError
from kgm.operations.audit.audit_log import AuditLog
from kgm.operations.change.operator import HumanOperator
from kgm.operations.change.report import ChangeReport
from kgm.operations.change.result import Result
from kgm.operations.removal import removal
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.request import RemovalRequest
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kgm.protocol.messages.consumer_group_describe_response import DescribedGroup as ConsumerGroup
from kgm.protocol.messages.describe_groups_response import DescribedGroup as ClassicGroup
from kgm.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kgm.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.operations.removal.in_process import TOPIC, ClassicMember, Cluster, DirectWire, World, form_classic
from tests.selection import first_seed

ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
GROUP = "g"
DESCRIBES = (ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE)


class Kind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Fault(StrEnum):
    """What befalls the first LeaveGroup."""

    NONE = "answered"
    BEFORE = "lost before it was done"
    AFTER = "answer lost"
    ERROR = "answered with an error instead"
    RETRIABLE = "answered with a retriable error although done"
    FALSELY = "answered as done instead"


class Later(StrEnum):
    """What the descriptions after it say."""

    WORKS = "description works"
    FAILS = "description fails"
    ABSENT = "first description lacks it"
    PRESENT = "first description still has it"


class Meanwhile(StrEnum):
    """What happens before kgm hears anything."""

    NOTHING = "nothing"
    TAKEOVER = "another process takes the instance id"
    RETURN = "the process is there again"
    FAILOVER = "the coordinator fails over"
    OTHER = "another cluster answers"


@dataclass(frozen=True)
class Case:
    kind: Kind
    fault: Fault
    later: Later
    meanwhile: Meanwhile

    def __str__(self) -> str:
        return f"{self.kind}, {self.fault}, {self.later}, {self.meanwhile}"


ALL = [Case(*values) for values in itertools.product(Kind, Fault, Later, Meanwhile)]


def pairwise(cases: list[Case], seed: int) -> list[Case]:
    """Enough of the cases, in random order, that every two values of different dimensions meet."""

    def pairs(case: Case) -> set[tuple[Any, Any]]:
        return set(itertools.combinations((case.kind, case.fault, case.later, case.meanwhile), 2))

    shuffled = random.Random(seed).sample(cases, len(cases))
    missing = set().union(*map(pairs, cases))
    chosen = []
    while missing:
        best = max(shuffled, key=lambda case: len(pairs(case) & missing))
        missing -= pairs(best)
        chosen.append(best)
    return chosen


class Play:
    """One removal of member a, and of nobody else."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.world = case, World()
        self.log = AuditLog(folder / "audit.jsonl")
        self.groups = [self._form(cluster) for cluster in self.world.clusters]
        self.before = self.world.cluster.members(GROUP)
        self.victim = next(member_id for member_id, name in self.before if name == "a")
        self.was_sent = False
        self.lies = 0
        self.world.between = self._between
        self.seen_before: dict[ApiKey, Any] = {}
        self.newcomer: str | None = None
        self.report: ChangeReport[MemberResult] | None = None
        self.error: KgmError | None = None

    def _form(self, cluster: Cluster) -> HeartbeatGroup | list[ClassicMember]:
        if self.case.kind is Kind.CLASSIC:
            return form_classic(cluster, GROUP, ["a", "b"])
        group = HeartbeatGroup(DirectWire(cluster), GROUP, [TOPIC], "uniform")  # type: ignore[arg-type]
        group.join("a-id", "a")
        group.join("b-id", "b")
        group.heartbeat_until_stable()
        return group

    def run(self) -> None:
        request = RemovalRequest(group_id=GROUP, instance_ids=("a",), assume_stopped=True, guard_window_ms=0)
        with self.world.client() as client:
            prepared = removal.prepare(client, request, clock=self.world.clock)
            try:
                self.report = removal.execute(
                    client, prepared, operator=ALICE, audit=self.log, sleep=self.world.pass_by, clock=self.world.clock
                )
            except KgmError as error:
                self.error = error

    # -- between kgm and the broker

    def _between(self, api: ApiKey, request: Any, deliver: Any) -> Any:
        if api is ApiKey.LEAVE_GROUP and not self.was_sent:
            self.was_sent = True
            return self._leave(request, deliver)
        if api in DESCRIBES and self.was_sent:
            return self._described(api, request, deliver)
        answer = deliver()
        if api in DESCRIBES:
            self.seen_before[api] = answer
        return answer

    def _leave(self, request: Any, deliver: Any) -> LeaveGroupResponse:
        is_done = self.case.fault in (Fault.NONE, Fault.AFTER, Fault.RETRIABLE)
        answer = deliver() if is_done else None
        self._happen()
        match self.case.fault:
            case Fault.NONE:
                return answer
            case Fault.BEFORE | Fault.AFTER:
                raise LostError("the connection broke", sent=True)
            case Fault.ERROR:
                return LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            case Fault.RETRIABLE:
                return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            case Fault.FALSELY:
                rows = [
                    MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id)
                    for one in request.members
                ]
                return LeaveGroupResponse(members=rows)

    def _described(self, api: ApiKey, request: Any, deliver: Any) -> Any:
        answer = deliver()
        match self.case.later:
            case Later.FAILS if api is ApiKey.DESCRIBE_GROUPS:
                refused = [ClassicGroup(group_id=one, error_code=-1) for one in request.groups]
                return DescribeGroupsResponse(groups=refused)
            case Later.FAILS:
                refused = [ConsumerGroup(group_id=one, error_code=-1) for one in request.group_ids]
                return ConsumerGroupDescribeResponse(groups=refused)
            case Later.ABSENT if not self.lies and answer.groups[0].members:
                self.lies += 1
                answer.groups[0].members = [
                    one for one in answer.groups[0].members if one.member_id in ("b-id", self._bystander)
                ]
            case Later.PRESENT if not self.lies and self.seen_before[api].groups[0].members:
                self.lies += 1
                return self.seen_before[api]
        return answer

    @property
    def _bystander(self) -> str:
        return next(member_id for member_id, name in self.before if name == "b")

    def _happen(self) -> None:
        group, cluster = self.groups[0], self.world.cluster
        match self.case.meanwhile:
            case Meanwhile.TAKEOVER | Meanwhile.RETURN if isinstance(group, list):
                if self.case.meanwhile is Meanwhile.RETURN and group[0].heartbeat() == 0:
                    return  # it has not learned of anything
                ClassicMember(cluster, GROUP, "a").send_join()
                self.newcomer = self._holder()
            case Meanwhile.TAKEOVER if isinstance(group, HeartbeatGroup):
                if ("a-id", "a") in cluster.members(GROUP):
                    group.step_away("a-id")
                group.join("a2-id", "a")
                self.newcomer = "a2-id"
            case Meanwhile.RETURN if isinstance(group, HeartbeatGroup):
                if ("a-id", "a") in cluster.members(GROUP):
                    group.step_away("a-id")
                group.join("a-id", "a")
                self.newcomer = "a-id"
            case Meanwhile.FAILOVER:
                cluster.fail_over()
            case Meanwhile.OTHER:
                self.world.switch()

    def _holder(self) -> str | None:
        return next((one for one, name in self.world.cluster.members(GROUP) if name == "a"), None)

    # -- what is true

    def check(self) -> None:
        after, other = (cluster.members(GROUP) for cluster in self.world.clusters)
        holder = self._holder()
        assert "b" in {name for _, name in after}, "a bystander is gone"
        assert {name for _, name in other} == {"a", "b"}, "a member of another cluster is gone"
        if self.newcomer is not None:
            assert holder == self.newcomer, "a process that came meanwhile was removed"
        recorded = [one.result for one in self.log.read().removals]
        if self.report is None:
            assert self.error is not None
            assert self.error.exit_code != 0
            assert holder == self.victim, f"nothing was changed, it says: {self.error.message}"
            assert recorded in (["failed"], ["refused"])
            return
        (one,) = self.report.results
        assert recorded == [str(one.result)]
        assert [record.note for record in self.log.read().removals] == [one.note]
        assert (self.report.exit_code == 0) <= (holder is None), "exit code 0, and it is there"
        match one.result:
            case Result.REMOVED | Result.ABSENT:
                assert holder is None
            case Result.RETURNED:
                assert holder is not None
            case Result.FAILED | Result.REFUSED:
                assert holder is not None
            case Result.UNKNOWN:
                assert self.report.exit_code == 7
                assert one.note
                assert self.is_uncertain, "it could have been known"
            case Result.PLANNED:
                pytest.fail("only planned")
        if self.report.error is not None and one.note:
            assert any(one.note in fact for fact in self.report.error.facts)

    @property
    def is_uncertain(self) -> bool:
        """Whether kgm had no way to know: nothing answers for the group, or what it saw is no proof."""
        case = self.case
        return (
            case.later is Later.FAILS
            or case.meanwhile is not Meanwhile.NOTHING
            or case.fault in (Fault.ERROR, Fault.RETRIABLE)
        )


def play(case: Case, folder: Path) -> str | None:
    """What is wrong with what kgm says of a case."""
    played = Play(case, folder)
    try:
        played.run()
        played.check()
    except AssertionError as failure:
        results = () if played.report is None else played.report.results
        said = played.error or [(str(one.result), one.note) for one in results]
        return f"{case}: {failure}\n    kgm says {said!r}; the coordinator has {played.world.cluster.members(GROUP)}"
    return None


def failures_of(cases: list[Case], folder: Path) -> list[str]:
    return [one for number, case in enumerate(cases) if (one := play(case, folder / str(number))) is not None]


def test_what_kgm_says_is_what_the_coordinator_has(tmp_path):
    chosen = pairwise(ALL, first_seed())
    assert 24 <= len(chosen) <= 60
    failed = failures_of(chosen, tmp_path)
    assert failed == [], f"{len(failed)} of {len(chosen)}\n" + "\n".join(failed)


@pytest.mark.long
def test_in_every_case(tmp_path):
    failed = failures_of(ALL, tmp_path)
    assert failed == [], f"{len(failed)} of {len(ALL)}\n" + "\n".join(failed)
