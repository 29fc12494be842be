"""A Kafka broker with every kind of login: TLS, mTLS, PLAIN, SCRAM, OAUTHBEARER (unsecured tokens), and StandardAuthorizer.

On `PLAINTEXT` and `SSL` clients are anonymous, and anonymous is a super user: the broker and the tests themselves use these
listeners. On `OPEN` and `OPEN_SSL`, which have no login either, every client is the user `matrix`. On the other listeners
users have no rights until a test grants them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.client.joiners import Joiner, leave_dead_group
from tests.kafka.broker import KafkaCluster
from tests.kafka.certificates import Certificates, Pair
from tests.waiting import NOT_READY, until

#: Part of every password; tests search what kgm prints for it.
CANARY: Final = "s3cret-Canary"
#: A right stays until the broker ends, so a module that needs a user without rights shares it with no other module.
USERS: Final[Mapping[str, str]] = {
    name: f"{name}-{CANARY}"
    for name in (
        "nobody",
        "viewer",
        "operator",
        "reader",
        "matrix",
        "guard",
        "caller",
        "throttled",
        "asker",
        "wildcard",
        "barred",
        "limited",
        "auditor",
        "grouped",
        "prefixed",
    )
}
LISTENERS: Final = {
    "SSL": "SSL", "MTLS": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL", "SHORT": "SASL_PLAINTEXT",
    "OPEN": "PLAINTEXT", "OPEN_SSL": "SSL",
}  # fmt: skip
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SESSION_MS: Final = 60_000
#: The longest session that a broker allows: an absent member stays in its group, however slow the machine is.
LONGEST_SESSION_MS: Final = 1_800_000
TOPIC, PARTITIONS = "orders", 6
#: The limit for classic groups.
GROUP_MAX_SIZE: Final = 5
_SECURITY = "org.apache.kafka.common.security"


def jaas(mechanism: str, user: str, password: str) -> str:
    """The `sasl.jaas.config` of a client."""
    if mechanism == "OAUTHBEARER":
        return f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{user}";'
    kind, module = ("plain", "PlainLoginModule") if mechanism == "PLAIN" else ("scram", "ScramLoginModule")
    return f'{_SECURITY}.{kind}.{module} required username="{user}" password="{password}";'


class SecuredKafka(KafkaCluster):
    """One broker; `certificates` are made before it starts. more: other properties of it."""

    def __init__(self, more: Mapping[str, str] | None = None) -> None:
        self._store = Path(tempfile.mkdtemp(prefix="kgm-certificates-"))
        self.certificates = Certificates(self._store)
        self._pairs: dict[str, Pair] = {}
        properties = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.broker.both_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.ca_file),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
            "listener.name.open.principal.builder.class": "GuestPrincipal",
            "listener.name.open_ssl.principal.builder.class": "GuestPrincipal",
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connection.failed.authentication.delay.ms": "0",
            "group.max.size": str(GROUP_MAX_SIZE),
            **(more or {}),
        }
        users = "".join(f' user_{name}="{password}"' for name, password in USERS.items())
        for listener in ("sasl_plaintext", "sasl_ssl", "short"):
            prefix = f"listener.name.{listener}"
            properties[f"{prefix}.plain.sasl.jaas.config"] = f"{_SECURITY}.plain.PlainLoginModule required{users};"
            properties[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
                f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
            )
        super().__init__(1, properties, listeners=LISTENERS, scram_users=dict(USERS), heap_mb=320)

    def start(self) -> Self:
        super().start()
        self.create_topics({TOPIC: PARTITIONS})
        return self

    def stop(self) -> None:
        super().stop()
        if not self._is_guest:
            shutil.rmtree(self._store, ignore_errors=True)

    def settings(self, listener: str, user: str = "operator", mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """A client's settings for a listener."""
        settings = {
            "bootstrap.servers": self.bootstrap_of(listener),
            "security.protocol": LISTENERS.get(listener, listener),
        }
        if "SSL" in LISTENERS.get(listener, listener):
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.certificates.ca_file)}
        if listener == "MTLS":
            pair = self.certificates.client if user == "operator" else self._pair(user)
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pair.both_file)}
        if LISTENERS.get(listener, "").startswith("SASL"):
            settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, user, USERS.get(user, ""))}
        if mechanism == "PLAIN" and LISTENERS.get(listener) == "SASL_PLAINTEXT":
            settings["kgm.allow.plaintext.password"] = "true"
        return settings

    def _pair(self, user: str) -> Pair:
        """A certificate in the user's name; the one of `operator` is in the name of `mtls-user`."""
        if user not in self._pairs:
            self._pairs[user] = self.certificates.issue(user, "client.example", common_name=user)
        return self._pairs[user]

    def add_absent_member(self, group: str, instance_id: str) -> None:
        """Make a group of one static member that owns all of `orders` and whose process is gone."""
        member = Joiner(self.port, group, instance_id, TOPIC)
        member.session_ms = LONGEST_SESSION_MS
        code = until(
            lambda: member.join().error_code,
            "the coordinator is not ready",
            accept=lambda code: code not in NOT_READY,
            every_s=0.05,
        )
        assert code == 0, code
        owned = encode_assignment(MemberAssignment(partitions={TOPIC: list(range(PARTITIONS))}))
        assert member.sync({member.member_id: owned}).error_code == 0
        member.close()

    def add_dead_group(self, group: str) -> None:
        """Make a group without members that has committed an offset of `orders`."""
        leave_dead_group(self.port, group, TOPIC)

    def allow(
        self, user: str, operation: str, *, group: str | None = None, topic: str | None = None, prefixed: bool = False,
        permission: AclPermissionType = AclPermissionType.ALLOW,
    ) -> None:  # fmt: skip
        """Grant a user a right on a group, a topic or the cluster; returns when it is in force for new requests.

        prefixed: on all groups or topics whose names begin with that name. permission: DENY to deny the right."""
        kind, name = (
            (ResourceType.GROUP, group) if group is not None
            else (ResourceType.TOPIC, topic) if topic is not None
            else (ResourceType.BROKER, "kafka-cluster")
        )  # fmt: skip
        binding = AclBinding(
            kind,
            name,
            ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[operation],
            permission,
        )
        admin = self.admin()  # a client that is dropped before its future resolves never answers
        for future in admin.create_acls([binding]).values():
            future.result(30)
        # The controller has it; the broker's authorizer, which answers this, learns of it a moment later.
        wanted = AclBindingFilter(
            kind,
            name,
            binding.resource_pattern_type,
            binding.principal,
            "*",
            binding.operation,
            binding.permission_type,
        )
        until(lambda: admin.describe_acls(wanted).result(30), f"the ACL of {user} is not in force", 30)


def start_secured_kafka() -> SecuredKafka:
    """The broker, started."""
    return SecuredKafka().start()
