"""One real broker of a version, with a group in every state, TLS, and SCRAM where the version has it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.cli.runner import Run, kgm
from tests.client.joiners import Joiner
from tests.kafka.broker import OldKafka
from tests.kafka.certificates import STORE_PASSWORD, Certificates
from tests.kafka.heartbeat_group import HeartbeatGroup
from tests.kafka.java_tools import java_command, kafka_class_path
from tests.kafka.members import Member, RdMembers, wait_settled
from tests.kafka.records import Feed
from tests.kafka.secured import CANARY, jaas
from tests.kafka.versions import broker_of
from tests.server.wire_client import WireClient
from tests.waiting import NOT_READY, until

TOPIC, PARTITIONS = "orders", 6
STABLE, DYNAMIC, EMPTY, PREPARING, COMPLETING, CONSUMER = (
    "stable", "dynamic", "empty", "preparing", "completing", "kip-848",
)  # fmt: skip
USER = "operator"
#: Longer than any run: a member whose process is gone stays in the group.
SESSION_MS: Final = 120_000
#: The longest session that a broker allows, for members that are single requests and never send a heartbeat.
IDLE_MS: Final = 1_800_000
HEARTBEAT_MS: Final = 300
COMMIT_MS: Final = 400
#: Longer than the shortest silence that the guard accepts as proof of a stop.
SILENCE_S: Final = 14
_LISTENER: Final = {"SASL_SSL": "SASL_SSL"}
#: Versions of JoinGroup, SyncGroup and OffsetCommit that all of these brokers have.
_OLDEST_STATIC: Final = (5, 3, 7)
_MECHANISM: Final = "SCRAM-SHA-512"
_SCRAM_TOOL_S: Final = 60


class Scene:
    """The broker and its groups; a context manager. `mechanism` is PLAIN where the broker has no SCRAM."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.release = tuple(map(int, version.partition("+")[0].split(".")[:2]))
        self.has_consumer_groups = self.release >= (4, 0) or version.endswith("+new")
        self.members: dict[str, Member] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kgm-scene-")))
        self.certificates = Certificates(self.folder)
        # Without ZooKeeper brokers have SCRAM from 3.5 on.
        is_kraft = self.release >= (3, 3)
        self.mechanism = _MECHANISM if not is_kraft or self.release >= (3, 5) else "PLAIN"
        self.kafka = self._stack.enter_context(broker_of(self.version, self._properties(), listeners=_LISTENER))
        self._add_user()
        self.kafka.create_topics({TOPIC: PARTITIONS})
        self._pool = self._stack.enter_context(RdMembers(self.kafka.bootstrap))
        self._stack.callback(Feed(self.kafka.bootstrap, TOPIC, PARTITIONS).end)
        self._form()

    def _properties(self) -> dict[str, str]:
        security = "org.apache.kafka.common.security"
        prefix = f"listener.name.sasl_ssl.{self.mechanism.lower()}.sasl.jaas.config"
        scram = f"{security}.scram.ScramLoginModule required;"
        plain = f'{security}.plain.PlainLoginModule required user_{USER}="{CANARY}";'
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.certificates.broker.p12_file),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
            "sasl.enabled.mechanisms": self.mechanism,
            prefix: plain if self.mechanism == "PLAIN" else scram,
            # Members that are single heartbeats must stay.
            **({"group.consumer.session.timeout.ms": "60000"} if self.version.endswith("+new") else {}),
        }

    def _add_user(self) -> None:
        if self.mechanism == "PLAIN":
            return
        if isinstance(self.kafka, OldKafka) and self.release < (2, 7):  # no API for it
            command = java_command(
                "kafka.admin.ConfigCommand", "--zookeeper", self.kafka.zookeeper, "--alter",
                "--add-config", f"{_MECHANISM}=[password={CANARY}]", "--entity-type", "users", "--entity-name", USER,
                class_path=kafka_class_path(version=self.version),
            )  # fmt: skip
            subprocess.run(command, check=True, capture_output=True, timeout=_SCRAM_TOOL_S)
            return
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        update = UserScramCredentialUpsertion(USER, info, CANARY.encode())
        admin = self.kafka.admin()  # a client that is dropped before its future resolves never answers
        for future in admin.alter_user_scram_credentials([update]).values():
            future.result(30)

    # -- groups

    def _form(self) -> None:
        for instance_id in ("a", "b", "c"):
            self.start(STABLE, instance_id)
        begins = self.start(DYNAMIC, None, name="dynamic-1")
        left = self.start(EMPTY, None, name="left")
        wait_settled([begins], PARTITIONS)  # otherwise both would be in the first generation
        self.start(DYNAMIC, None, name="dynamic-2")
        wait_settled([self.members[name] for name in "abc"], PARTITIONS)
        wait_settled([self.members["dynamic-1"], self.members["dynamic-2"]], PARTITIONS)
        wait_settled([left], PARTITIONS)
        for group in (STABLE, DYNAMIC, EMPTY):
            until(lambda name=group: self.commits(name), f"{group} does not commit everywhere", 60, every_s=0.1)
        left.close()
        if self.has_consumer_groups:
            self._form_consumer_group()
        self._rebalance(PREPARING)
        self._rebalance(COMPLETING)

    def _form_consumer_group(self) -> None:
        if self.release < (4, 0):  # today's clients need version 1 of the heartbeat
            wire = WireClient(self.kafka.port)
            self._stack.callback(wire.close)
            group = HeartbeatGroup(wire, CONSUMER, [TOPIC], "uniform")
            group.version = 0
            for instance_id in ("x", "y"):
                group.join(f"member-{instance_id}", instance_id)
            until(
                lambda: group.heartbeat_until_stable() or len(group.owned["member-x"]) == len(group.owned["member-y"]) == 1,
                "the members have no partitions", 30, every_s=0.2,
            )  # fmt: skip
            return
        for instance_id in ("x", "y"):
            self.start(CONSUMER, instance_id, protocol="consumer")
        wait_settled([self.members["x"], self.members["y"]], PARTITIONS)

    def start(self, group: str, instance_id: str | None, *, name: str = "", protocol: str = "classic") -> Member:
        """Start a consumer; it is kept in `members` under its name, or else its instance id."""
        own = {"session_timeout_ms": SESSION_MS, "assignor": "range"} if protocol == "classic" else {}
        member = self._pool.start(
            group=group, topics=[TOPIC], instance_id=instance_id, protocol=protocol, client_id=name or instance_id,
            heartbeat_interval_ms=HEARTBEAT_MS, max_poll_interval_ms=SESSION_MS * 2,
            config={"enable.auto.commit": "true", "auto.commit.interval.ms": str(COMMIT_MS)}, **own,
        )  # fmt: skip
        self.members[name or str(instance_id)] = member
        return member

    def _rebalance(self, group: str) -> None:
        """Make a group that stays in the state it is named for: in PreparingRebalance it waits for a member that does
        not join again, in CompletingRebalance for a leader that does not assign."""
        first = self._joiner(group, "p")
        answer = until(
            first.join, "the coordinator is not ready", accept=lambda one: one.error_code not in NOT_READY, every_s=0.05
        )
        assert answer.error_code == 0, answer.error_code
        if group == PREPARING:
            owned = encode_assignment(MemberAssignment(partitions={TOPIC: list(range(PARTITIONS))}))
            assert first.sync({first.member_id: owned}).error_code == 0
            self._joiner(group, "q").send_join()

    def _joiner(self, group: str, instance_id: str) -> Joiner:
        joiner = Joiner(self.kafka.port, group, instance_id, TOPIC)
        self._stack.callback(joiner.close)
        joiner.session_ms = joiner.rebalance_ms = IDLE_MS
        joiner.join_version, joiner.sync_version, joiner.commit_version = _OLDEST_STATIC
        return joiner

    # -- what tests ask

    def run(self, *words: str, is_logged_in: bool = False) -> Run:
        """Run kgm on this broker. A traceback or an internal error fails the test immediately."""
        where = ("--command-config", self.client_properties()) if is_logged_in else ("-b", self.kafka.bootstrap)
        done = kgm(*words, *where, "--timeout", "40s")
        assert "Traceback" not in done.err, done.err
        assert "internal error" not in done.err, done.err
        assert CANARY not in done.out + done.err
        return done

    def json(self, *words: str, code: int = 0, is_logged_in: bool = False) -> Any:
        """The JSON of a command that ends with this exit code."""
        done = self.run(*words, "-o", "json", is_logged_in=is_logged_in)
        assert done.code == code, done
        return json.loads(done.out)

    def kgm_alone(self, *words: str) -> Any:
        """The JSON of a command that connects to no broker."""
        done = kgm(*words, "-o", "json")
        assert done.code == 0, done
        return json.loads(done.out)

    def client_properties(self) -> str:
        path = self.folder / "client.properties"
        settings = {
            "bootstrap.servers": self.kafka.bootstrap_of("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.ca_file),
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": jaas(self.mechanism, USER, CANARY),
        }
        path.touch(mode=0o600)
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def segments(self) -> str:
        """A copy of the broker's `__consumer_offsets`."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for path in self.kafka.log_dir().glob("__consumer_offsets-*"):
            shutil.copytree(path, folder / path.name)
        return str(folder)

    def group(self, group: str) -> Any:
        """The group's description."""
        (described,) = self.json("describe", group)["data"]["groups"]
        return described

    def commits(self, group: str) -> bool:
        """Whether the group has committed an offset of every partition."""
        return sum(bool(row["committed"]) for row in self.group(group)["offsets"]) == PARTITIONS

    def rebalances(self, group: str) -> list[Any]:
        """The rebalances that the live log shows."""
        return list(self.json("history", "rebalances", group)["data"]["rebalances"])

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        until(condition, what, 40, every_s=0.1)

    def be_silent(self) -> None:
        """Wait until a member that was killed just now has been silent for long enough."""
        end = time.monotonic() + SILENCE_S
        until(lambda: time.monotonic() > end, "time stands still", SILENCE_S + 10, every_s=0.1)
