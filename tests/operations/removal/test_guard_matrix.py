"""What the guard says of real members on real brokers, and what kgm does then: no row removes a live member without a flag.

docs/guard.md is made from these runs; `KGM_WRITE_DOCS=1` writes it. All situations of a broker run at once: they take
their time, not the processor's."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kgm.client import Security, connect
from kgm.client.admin_client import AdminClient
from kgm.client.security import make_security
from kgm.model.errors import RefusedError
from kgm.operations.change.operator import HumanOperator
from kgm.operations.removal import removal
from kgm.operations.removal.guard import LONGEST_WINDOW_MS, WINDOW_MS
from kgm.operations.removal.outcome import MemberResult
from kgm.operations.removal.request import RemovalRequest
from tests.kafka.members import JavaMembers, Member, RdMembers, wait_settled
from tests.kafka.records import Feed, produce
from tests.kafka.versions import LONG_CONSUMER_SESSION, shared_broker
from tests.selection import is_long, sized
from tests.waiting import until

pytestmark = pytest.mark.shows("remove-members")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guard.md"
DEFAULT_VERSIONS = ("4.3.0", "3.9.1", "2.8.2")
VERSIONS = sized(DEFAULT_VERSIONS[:1], DEFAULT_VERSIONS)
CLIENTS = ("librdkafka", "Java")
ALICE = HumanOperator(name="alice", uid=1000, host="ops-1")
#: A static member that is gone stays in the group for so long: longer than any situation takes on a busy machine.
SESSION_MS = 900_000
COMMIT_MS = 400
#: The shortest silence that counts, and how many of its own commit intervals a member has to be silent.
SHORTEST_SILENCE_S, INTERVALS = 10, 5
#: A member that consumes has records at least as often; kgm watches for longer.
LONGEST_PAUSE_S = 1.0
#: How often a situation is played if a consumer of KIP-848 could not join, or the machine was too busy for it.
_ATTEMPTS = 3
#: The longest watch of a member that has stopped; it ends as soon as kgm knows.
_LONG_WATCH_MS = 120_000


@dataclass(frozen=True)
class Outcome:
    """What came of one run without a flag."""

    verdict: str
    why: str
    result: str
    exit_code: int
    is_there: bool


class Stalled(TimeoutError):
    """The machine was too busy for the situation that was to be played."""


class Stage:
    """A group of two static members of its own, v (the one to be removed) and n, and a topic of two partitions."""

    def __init__(
        self, kafka: Any, members: RdMembers | JavaMembers, name: str, *, protocol: str = "classic",
        admin: tuple[str, Security | None] | None = None,
    ) -> None:  # fmt: skip
        """admin: the bootstrap server and login that kgm uses, if they are not those of the consumers."""
        self.kafka, self.members, self.group, self.topic = kafka, members, name, name
        self.protocol, self._admin = protocol, admin
        self.fleet: dict[str, Member] = {}
        self._feed: Feed | None = None
        #: From then on, what happens is what is tested.
        self.is_formed = False
        #: No interval between two commits was longer.
        self.longest_interval_s = 0.0
        #: How long kgm watches; None for its default.
        self.window_ms: int | None = None
        kafka.create_topics({self.topic: 2})
        if protocol == "consumer":
            # From `close` to kgm a busy machine may need longer than the session that consumer groups have otherwise.
            kafka.configure_group(self.group, LONG_CONSUMER_SESSION)

    def start(self, instance_id: str, **config: str) -> Member:
        auto = {"enable.auto.commit": "true", "auto.commit.interval.ms": str(COMMIT_MS)}
        self.fleet[instance_id] = self.members.start(
            group=self.group, topics=[self.topic], instance_id=instance_id, protocol=self.protocol,
            assignor="range", session_timeout_ms=SESSION_MS, max_poll_interval_ms=SESSION_MS * 2, config=auto | config,
        )  # fmt: skip
        return self.fleet[instance_id]

    def form(self, **config: str) -> Member:
        """Both members with a partition each; returns v."""
        victim, neighbour = self.start("v", **config), self.start("n")
        wait_settled([victim, neighbour], 2)
        self.is_formed = True
        return victim

    def produce(self, count: int = 20) -> None:
        produce(self.kafka.bootstrap, self.topic, [b"x"] * 2 * count, [0, 1])

    def feed(self) -> None:
        """Records for both partitions from now on."""
        self._feed = Feed(self.kafka.bootstrap, self.topic, 2)

    def end(self) -> None:
        if self._feed is not None:
            self._feed.end()

    def wait_committed(self, count: int) -> None:
        with connect(self.kafka.bootstrap, timeout_ms=90_000) as cluster:
            self._wait_committed(cluster, count)

    def _wait_committed(self, cluster: AdminClient, count: int) -> None:
        def committed() -> dict[tuple[str, int], int]:
            cluster.renew()
            return dict(cluster.committed_offsets(self.group))

        until(
            committed, f"{self.group} has not committed {count}",
            accept=lambda found: len(found) == 2 and all(offset >= count for offset in found.values()), every_s=0.1,
        )  # fmt: skip

    def wait_away(self) -> None:
        """Until the coordinator has heard from v that it will be back: a consumer that is closed says so once."""
        with connect(self.kafka.bootstrap, timeout_ms=30_000) as cluster:

            def is_away() -> bool:
                cluster.renew()
                found = cluster.describe_group(self.group, offsets=False)
                return any(one.status == "away" for one in found.members)

            try:
                until(is_away, f"{self.group}: nobody is away", 30)
            except TimeoutError as error:
                raise Stalled(str(error)) from error

    def commit_for_a_while(self) -> None:
        """Enough commits for an interval of its own to show: some records, every now and then."""
        with connect(self.kafka.bootstrap, timeout_ms=90_000) as cluster:
            before_s = time.monotonic()
            for round_number in range(1, 8):
                produced_s = time.monotonic()
                self.produce(1)
                self._wait_committed(cluster, round_number)
                # The last commit was seen after the previous round was produced.
                self.longest_interval_s = max(self.longest_interval_s, time.monotonic() - before_s)
                before_s = produced_s

    def consume_for_a_while(self) -> None:
        """Records from now on, and enough commits for the pace of v to show, which stays that of the records: what then
        waits for it is no burst."""
        self.feed()
        with connect(self.kafka.bootstrap, timeout_ms=90_000) as cluster:
            seen: dict[tuple[str, int], tuple[int, float]] = {}

            def least_commits() -> int:
                cluster.renew()
                for pair, offset in cluster.committed_offsets(self.group).items():
                    before, at_s = seen.get(pair, (-1, time.monotonic()))
                    if offset != before:
                        self.longest_interval_s = max(self.longest_interval_s, time.monotonic() - at_s)
                        commits[pair] = commits.get(pair, 0) + 1
                        seen[pair] = offset, time.monotonic()
                return min(commits.values()) if len(commits) == 2 else 0

            commits: dict[tuple[str, int], int] = {}
            until(least_commits, f"{self.group} commits too little", accept=lambda found: found >= 8, every_s=0.1)

    def be_silent(self) -> None:
        """Wait until a member that has stopped is overdue by the coordinator's clock, however long its intervals were.
        kgm then watches until it has seen that silence itself: by default, unless it is longer than a watch is worth."""
        silence_s = max(SHORTEST_SILENCE_S, INTERVALS * self.longest_interval_s)
        if silence_s * 1000 > LONGEST_WINDOW_MS / 2:
            self.window_ms = round(silence_s * 1000) + WINDOW_MS
        feed = self._feed
        assert feed is not None
        until(lambda: feed.rounds_s, f"{self.group}: no record yet")
        time.sleep(silence_s + 4)

    def remove(self, **flags: Any) -> Outcome:
        """`kgm remove-members GROUP --instance-ids v --yes`, with these flags."""
        bootstrap, security = self._admin or (self.kafka.bootstrap, None)
        with connect(bootstrap, timeout_ms=30_000, security=security) as cluster:
            request = RemovalRequest(group_id=self.group, instance_ids=("v",), guard_window_ms=self.window_ms, **flags)
            prepared = removal.prepare(cluster, request)
            try:
                report = removal.execute(cluster, prepared, operator=ALICE, audit=None)
                (one,), code = report.results, report.exit_code
            except RefusedError as error:
                (one,), code = prepared.results, error.exit_code
            cluster.renew()
            present = any(member.group_instance_id == "v" for member in cluster.describe_members_of(self.group).members)
        return _outcome(one, code, present)

    def remove_silent(self) -> Outcome:
        """The same, of a member that has stopped. On a busy machine records come unevenly, and what waits may be a burst:
        then kgm asks for a longer watch, and gets it."""
        self.be_silent()
        outcome = self.remove()
        if outcome.verdict == "unknown" and "it may have polled" in outcome.why:
            self.window_ms = _LONG_WATCH_MS
            outcome = self.remove()
        return outcome

    def remove_soon(self) -> Outcome:
        """The same, right after records have begun to wait for a member that says nothing: its silence is no proof yet."""
        assert self._feed is not None
        begun_s = time.monotonic()
        outcome = self.remove()
        took_s = time.monotonic() - begun_s
        if outcome.verdict == "stopped" and took_s > SHORTEST_SILENCE_S - 2:
            raise Stalled(f"{self.group}: kgm looked for {took_s:.1f} s, so the silence was long enough")
        return outcome

    def remove_consuming(self, **flags: Any) -> Outcome:
        """The same, of a member that consumes: as it always finds something to commit, kgm has to see that."""
        assert self._feed is not None
        begun_s = time.monotonic()
        outcome = self.remove(**flags)
        pause_s = self._feed.longest_pause_s(begun_s)
        if outcome.verdict == "unknown" and pause_s > LONGEST_PAUSE_S:
            raise Stalled(f"{self.group}: no record for {pause_s:.1f} s")
        if outcome.result == "removed" and not outcome.is_there:
            raise Stalled(f"{self.group}: not back as long as kgm waited")
        return outcome


def _outcome(one: MemberResult, code: int, present: bool) -> Outcome:
    return Outcome(
        verdict=str(one.liveness.verdict), why=one.liveness.why, result=str(one.result), exit_code=code,
        is_there=present,
    )  # fmt: skip


# -- situations --------------------------------------------------------------------------------------------------------


def idle(stage: Stage) -> Outcome:
    stage.form()
    if isinstance(stage.members, JavaMembers):
        stage.wait_committed(0)  # it commits its position without records, too, once it knows it
    return stage.remove()


def caught_up(stage: Stage) -> Outcome:
    stage.form()
    stage.commit_for_a_while()
    return stage.remove()


def consuming(stage: Stage) -> Outcome:
    stage.form()
    stage.feed()
    stage.wait_committed(3)
    return stage.remove_consuming()


def commits_slowly(stage: Stage) -> Outcome:
    stage.form(**{"auto.commit.interval.ms": "600000"})
    stage.produce()
    return stage.remove()


def commits_never(stage: Stage) -> Outcome:
    stage.form(**{"enable.auto.commit": "false"})
    stage.feed()
    return stage.remove()


def paused(stage: Stage) -> Outcome:
    victim = stage.form()
    stage.commit_for_a_while()
    victim.pause()
    stage.feed()
    return stage.remove_soon()


def slow_handler(stage: Stage) -> Outcome:
    victim = stage.form()
    stage.commit_for_a_while()
    victim.stall(60_000)
    stage.feed()
    return stage.remove_soon()


def rebalancing(stage: Stage) -> Outcome:
    """A third static member is gone, and a new one joins: the group waits for the one that is gone."""
    stage.form()
    stage.is_formed = False
    third = stage.start("x")
    third.wait_event("assigned")
    stage.is_formed = True
    third.crash()
    stage.start("y")
    with connect(stage.kafka.bootstrap, timeout_ms=30_000) as cluster:

        def state() -> str:
            cluster.renew()
            return cluster.describe_members_of(stage.group).state

        until(state, "it does not rebalance", 30, accept=lambda seen: seen == "PreparingRebalance", every_s=0.05)
    return stage.remove()


def killed(stage: Stage) -> Outcome:
    """Long enough ago, with records that wait, while the other member goes on."""
    victim = stage.form()
    stage.consume_for_a_while()
    victim.crash()
    return stage.remove_silent()


def closed(stage: Stage) -> Outcome:
    victim = stage.form()
    stage.consume_for_a_while()
    victim.close()
    return stage.remove_silent()


def away(stage: Stage) -> Outcome:
    """A static member of a consumer group that closes says with member epoch -2 that it will be back."""
    victim = stage.form()
    victim.close()
    stage.wait_away()
    return stage.remove()


def killed_just_now(stage: Stage) -> Outcome:
    victim = stage.form()
    stage.commit_for_a_while()
    stage.feed()
    victim.crash()
    return stage.remove_soon()


def killed_after_it_had_read_everything(stage: Stage) -> Outcome:
    victim = stage.form()
    stage.commit_for_a_while()
    victim.crash()
    return stage.remove()


def killed_and_vouched_for(stage: Stage) -> Outcome:
    victim = stage.form()
    victim.crash()
    return stage.remove(assume_stopped=True)


def alive_and_vouched_for(stage: Stage) -> Outcome:
    stage.form()
    stage.feed()
    stage.wait_committed(3)
    return stage.remove_consuming(assume_stopped=True)


def alive_and_allowed(stage: Stage) -> Outcome:
    stage.form()
    stage.feed()
    stage.wait_committed(3)
    return stage.remove_consuming(allow_live=True)


@dataclass(frozen=True)
class Situation:
    """play: sets it up and runs kgm. librdkafka, java: the verdicts on a member of each client that are right; which of
    several it is depends on when kgm looks."""

    play: Callable[[Stage], Outcome]
    text: str
    is_alive: bool
    librdkafka: str
    java: str
    flags: str = ""
    protocol: str = "classic"

    def verdict(self, client: str) -> str:
        return self.librdkafka if client == "librdkafka" else self.java


SITUATIONS = (
    Situation(idle, "idle: there was never a record", True, "unknown", "alive"),
    Situation(caught_up, "has read everything", True, "unknown", "alive"),
    Situation(consuming, "consumes", True, "alive", "alive"),
    Situation(commits_slowly, "commits every 10 minutes", True, "unknown", "unknown"),
    Situation(commits_never, "never commits", True, "unknown", "unknown"),
    Situation(paused, "is paused, and records arrive", True, "unknown", "alive"),
    Situation(slow_handler, "handles one record for a minute", True, "unknown", "unknown"),
    Situation(rebalancing, "is in a group that rebalances", True, "unknown", "unknown or alive"),
    Situation(killed, "was killed five commit intervals ago, and records arrive", False, "stopped", "stopped"),
    Situation(closed, "was closed five commit intervals ago, and records arrive", False, "stopped", "stopped"),
    Situation(killed_just_now, "was killed just now", False, "unknown", "unknown"),
    Situation(
        killed_after_it_had_read_everything, "was killed when it had read everything", False, "unknown", "unknown"
    ),
    Situation(killed_and_vouched_for, "was killed", False, "unknown", "unknown", "--assume-stopped"),
    Situation(alive_and_vouched_for, "consumes", True, "alive", "alive", "--assume-stopped"),
    Situation(alive_and_allowed, "consumes", True, "alive", "alive", "--allow-live"),
)
#: Of groups that use the consumer protocol, on brokers that have it.
KIP_848 = (
    Situation(idle, "idle: there was never a record", True, "unknown", "alive", protocol="consumer"),
    Situation(consuming, "consumes", True, "alive", "alive", protocol="consumer"),
    Situation(away, "was closed, and will come back", False, "stopped", "stopped", protocol="consumer"),
    Situation(alive_and_allowed, "consumes", True, "alive", "alive", "--allow-live", protocol="consumer"),
)
#: Another situation has the same verdict for the same reason: there is nothing to commit, records arrive without a commit,
#: they have not done so for long, or a member has been silent for long; and the protocol makes no difference.
ALIKE = {
    (caught_up, "classic"), (commits_slowly, "classic"), (slow_handler, "classic"), (closed, "classic"),
    (killed_just_now, "classic"), (idle, "consumer"), (consuming, "consumer"),
}  # fmt: skip
#: kgm's login has READ on the group, and nothing on `__consumer_offsets`.
WITHOUT_THE_LOG = (
    Situation(caught_up, "has read everything", True, "unknown", "unknown"),
    Situation(consuming, "consumes", True, "alive", "alive"),
    Situation(killed, "was killed five commit intervals ago, and records arrive", False, "unknown", "unknown"),
)


Played = dict[tuple[str, Situation], Future[Outcome]]


def with_clients(situations: Sequence[Situation]) -> list[tuple[str, Situation]]:
    """Each situation with both clients; without `--long` most of them, with the clients in turn."""
    if is_long():
        return [(client, one) for one, client in itertools.product(situations, CLIENTS)]
    quick = [one for one in situations if (one.play, one.protocol) not in ALIKE]
    return [*zip(itertools.cycle(CLIENTS), quick)]


def id_of(value: str | Situation) -> str:
    return value if isinstance(value, str) else f"{value.protocol}-{value.play.__name__}"


@contextlib.contextmanager
def play_all(
    kafka: Any, situations: Sequence[Situation], prefix: str, admin: tuple[str, Security | None] | None = None
) -> Iterator[Played]:
    """Every situation with its clients, each in a thread."""
    with (
        RdMembers(kafka.bootstrap) as rd,
        JavaMembers(kafka.bootstrap) as java,
        ThreadPoolExecutor(max_workers=2 * len(situations)) as pool,
    ):
        futures: Played = {}
        for number, (client, situation) in enumerate(with_clients(situations)):
            members = rd if client == "librdkafka" else java
            name = f"{prefix}-{client.lower()}-{number}"
            futures[client, situation] = pool.submit(_play, kafka, members, name, situation, admin)
        for future in futures.values():
            future.exception()
        yield futures


@pytest.fixture(scope="module", params=VERSIONS)
def played(request):
    """Every situation of one version: futures by (client, situation)."""
    situations = (*SITUATIONS, *(KIP_848 if request.param.startswith("4.") else ()))
    with play_all(shared_broker(request.param), situations, "matrix") as futures:
        yield request.param, futures


@pytest.fixture(scope="module")
def played_without_the_log(secured):
    secured.allow("guard", "READ", group="nolog", prefixed=True)
    for operation in ("DESCRIBE", "READ"):
        secured.allow("guard", operation, topic="nolog", prefixed=True)
    security, _ = make_security(secured.settings("SASL_SSL", user="guard"))
    admin = (secured.settings("SASL_SSL")["bootstrap.servers"], security)
    with play_all(secured, WITHOUT_THE_LOG, "nolog", admin) as futures:
        yield futures


def _play(
    kafka: Any, members: RdMembers | JavaMembers, name: str, situation: Situation,
    admin: tuple[str, Security | None] | None,
) -> Outcome:  # fmt: skip
    for attempt in range(_ATTEMPTS):
        stage = Stage(kafka, members, f"{name}-{attempt}", protocol=situation.protocol, admin=admin)
        try:
            return situation.play(stage)
        except TimeoutError as error:
            # librdkafka that loses the answer to its first heartbeat joins again as another member, and is refused; one
            # that asks for a coordinator too early may not come to a group within the time.
            is_hindered = isinstance(error, Stalled) or any(member.fatal for member in stage.fleet.values())
            if attempt == _ATTEMPTS - 1 or (stage.is_formed and not is_hindered):
                raise
        finally:
            stage.end()
    raise AssertionError("unreachable")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.scenes
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("client", "situation"), with_clients([*SITUATIONS, *KIP_848]), ids=id_of)
def test_the_verdict_is_true_and_no_live_member_is_removed_without_a_flag(played, client, situation):
    version, futures = played
    if (client, situation) not in futures:
        pytest.skip(f"Kafka {version} has no consumer groups by default")
    check(futures[client, situation].result(), client, situation, version)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.scenes
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("client", "situation"), with_clients(WITHOUT_THE_LOG), ids=id_of)
def test_what_cannot_be_read_is_no_absence_of_life(played_without_the_log, client, situation):
    outcome = played_without_the_log[client, situation].result()
    check(outcome, client, situation, "with ACLs")
    if outcome.verdict == "unknown":
        assert "no READ on Topic '__consumer_offsets'" in outcome.why


def check(outcome: Outcome, client: str, situation: Situation, version: str) -> None:
    if situation.is_alive:
        assert outcome.verdict != "stopped", outcome
    else:
        assert outcome.verdict != "alive", outcome
    assert outcome.verdict in situation.verdict(client).split(" or "), (version, outcome)
    wanted = what_follows(outcome.verdict, situation)
    assert (outcome.result, outcome.exit_code) == wanted, outcome
    assert outcome.is_there == (wanted[0] != "removed"), outcome


def what_follows(verdict: str, situation: Situation) -> tuple[str, int]:
    """(result, exit code) of a verdict under the flags of a situation."""
    flags = {"stopped": "", "unknown": "--assume-stopped", "alive": "--allow-live"}
    if verdict != "stopped" and situation.flags != flags[verdict]:
        return "refused", 6
    return ("returned", 7) if situation.is_alive else ("removed", 0)


COLUMNS = """| the member | client | flags | verdict | what kgm does | exit code |
|---|---|---|---|---|---|
"""
HEAD = """# Who may be removed: what the guard says, and what kgm does

Generated by `tests/operations/removal/test_guard_matrix.py`, which runs every row on real brokers with real consumers:
Kafka {versions}, librdkafka and Java. `KGM_WRITE_DOCS=1` writes this page, and the test fails when it is out of date.

`kgm remove-members` never removes a member that is `alive` or `unknown` unless a flag says so. A verdict is based
on what kgm sees; what it cannot see never counts as a sign that a member is gone.

| verdict | means | removed |
|---|---|---|
| `alive` | it committed, rejoined or reported while kgm watched, or was still a member after its session timeout | only with `--allow-live` |
| `stopped` | it left with the intention to come back (member epoch -2, KIP-848); or kgm has seen records arrive for it, and then no commit for five of its own commit intervals (10 seconds at least), as the group's log shows them, nor for five times as long as what it may have polled at once takes it at their pace | yes |
| `unknown` | anything else; the evidence says what is missing | only with `--assume-stopped` |

## What counts as evidence

Only what kgm has seen itself between two of its own polls, and what the coordinator has stamped with its own clock: the
times of commits in the group's log. The timestamps of records do not count, because their producers choose them: a mirror
or a replay writes records that look as if they had waited for years. Nor do those of a broker (LogAppendTime), whose
clock is not the coordinator's. Nor does the mere distance to the end of a
partition: transaction markers have offsets too, and records of open transactions cannot be read yet.

Nor does silence while nobody can commit. With fewer in-sync replicas than `min.insync.replicas` the group's partition of
`__consumer_offsets` takes no records, so the coordinator refuses every commit, although it answers heartbeats and all
that kgm asks. Such a time does not count, and as long as it lasts the verdict is `unknown`. Where replicas are not in
sync and kgm may not read the setting (DESCRIBE_CONFIGS on `__consumer_offsets`), silence counts until the partition was
last seen to take a record. A replica that hangs is still in sync for a while, and all commits wait for it: silence counts
until kgm last saw that the in-sync replicas had everything in the leader's log.

## From the verdict to the end

kgm removes a member in the same way for `remove-members`, `rollout --remove` and Python:

1. kgm watches, and gives each member a verdict.
2. It asks, unless `--yes` is given.
3. Immediately before it sends, it looks again at the type of the group, at the id, epoch and commits of each member, and at
   the group's log, and whether that takes records. Whatever has shown signs of life since the verdict is `alive`, and nothing is sent (exit code 6): a member that
   left with epoch -2 and subscribed again, a process that was paused and commits again, another process with the instance
   id. If the prompt was open for longer than kgm watches, the whole watch is repeated. Each connection has to name the
   id of the cluster with which kgm began before anything else is sent on it: a port-forward or a DNS name may lead
   elsewhere after a break.
4. It sends one LeaveGroup for all members.
5. It describes the group until two descriptions in a row agree. Only a member that they do not show is `removed`. If the
   group cannot be described, the result is `unknown`, whatever the answer was, and the exit code 7.
6. Unless the member had left with epoch -2, it waits for 4 s in a classic group and 6 s in one of KIP-848, and checks
   whether the member comes back: `returned`, exit code 7. Where it may run on kafkajs, which ends a fetch first, it waits
   for 9 s, and for 19 s where it may run on kafka-go, or is a dynamic member of a library that kgm does not know
   (`--library` names it). Neither `--guard-window` nor `--timeout` shortens that.
   A member of a classic group that is there again under the same member id did not come back: the coordinator moved
   before the rebalance had ended, and its successor does not know of the removal. Then run the command again.

## A backlog is no death

Many consumers (Java's, kafkajs) commit what they polled once they have handled all of it: after a burst of records a
consumer that used to commit every second may be silent for minutes, and sends heartbeats. So kgm also works out what it may
have polled at once: what comes in one commit interval, and a burst, which is what waits and does not follow from the time
since its last commit at the usual rate. Only if it has committed nothing for five times as long as these records take at
the average pace of its earlier commits is its silence proof. The time before the watch counts if other records in the
same partition of `__consumer_offsets` show it, as those of the other members do; where nobody else commits, kgm has to
watch for longer, and the hint says for how long. Commits that have repeated the same offsets show no pace: silence is no
proof then.

## When to say --assume-stopped

When you know that the process is not running, and only then:

- systemd: `systemctl is-active app@3` says `inactive` or `failed`, and nothing restarts it.
- Kubernetes: `kubectl get pod app-3` says `NotFound`, or the node is gone and the pod was deleted.
- The machine is switched off.

A longer watch shows more: with `--guard-window` as long as the session timeout, an idle member is proved
alive, because it is still a member after that time, and one that is gone has dropped out of the group.

## What kgm cannot see

- A consumer that is paused, or whose handler takes much longer for a record than its commits have shown, commits nothing
  although records arrive. It looks stopped
  once that lasts for five of its commit intervals (10 seconds at least), until its session timeout has passed since its
  last commit: then it must have sent heartbeats, and is `unknown` again. Java's consumers commit while they are paused.
  The same holds for a consumer for which only records of aborted transactions arrive.
- Without READ on `__consumer_offsets` kgm knows no commit intervals, so only members at epoch -2 are `stopped`.
- A member that is removed although it is alive joins again with its next heartbeat or poll. kgm waits for that as said
  above, and reports `returned` (exit code 7). A process that polls later comes back unseen.
- A dynamic member of a classic group joins again under a new member id. A dynamic member that has joined since the request,
  with the same client id and from the same host, counts as its return, once; it can be another process of that client.

## The rows

"Records arrive" means: in its partitions, while kgm watches. The member is static; without an instance id the
rows are the same, but Kafka itself removes a dynamic member after its session timeout.

kgm watches for 6 seconds, and for up to 30 where records arrive and the log shows that the member has missed five commits
already. A stopped member that committed less often stays `unknown`; the hint of the refusal names the `--guard-window`
that provides proof.

"""


SECTIONS = (
    (SITUATIONS, COLUMNS),
    (KIP_848, "\nIn a group that uses the consumer protocol (KIP-848), on Kafka 4.3.0:\n\n" + COLUMNS),
    (WITHOUT_THE_LOG, "\nWhere kgm's login has READ on the group, but not on `__consumer_offsets`:\n\n" + COLUMNS),
)


def page() -> str:
    return HEAD.format(versions=", ".join(DEFAULT_VERSIONS)) + "".join(
        heading + rows_of(situations) for situations, heading in SECTIONS
    )


def rows_of(situations: Sequence[Situation]) -> str:
    rows = []
    for situation in situations:
        verdicts = {client: situation.verdict(client) for client in CLIENTS}
        for clients in [list(CLIENTS)] if len(set(verdicts.values())) == 1 else [[one] for one in CLIENTS]:
            verdict = verdicts[clients[0]]
            ((result, code),) = {what_follows(one, situation) for one in verdict.split(" or ")}
            did = {"refused": "refuses", "removed": "removes it", "returned": "removes it; it joins again: `returned`"}
            cells = (situation.text, " and ".join(clients), f"`{situation.flags}`" if situation.flags else "none",
                     " or ".join(f"`{one}`" for one in verdict.split(" or ")), did[result], str(code))  # fmt: skip
            rows.append(f"| {' | '.join(cells)} |\n")
    return "".join(rows)


def test_the_page_is_fresh():
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


def test_no_row_removes_a_live_member_without_a_flag():
    for situation in (*SITUATIONS, *KIP_848, *WITHOUT_THE_LOG):
        for client in CLIENTS:
            for verdict in situation.verdict(client).split(" or "):
                result, _ = what_follows(verdict, situation)
                assert result == "refused" or not situation.is_alive or situation.flags == "--allow-live"
