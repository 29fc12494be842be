"""Every setting of a Kafka client by what it means to kgm: used, secret, without meaning here, or not done.

From `AdminClientConfig`, `ConsumerConfig`, `ProducerConfig` of Kafka 4.3 and librdkafka's CONFIGURATION.md."""

import re
from collections.abc import Iterable

_JAVA = (
    "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config",
    "sasl.login.callback.handler.class", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols", "ssl.protocol", "ssl.key.password",
    "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.type",
)  # fmt: skip
_LIBRDKAFKA = (
    "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
    "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "enable.ssl.certificate.verification",
    "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.extensions", "https.ca.location", "https.ca.pem", "metadata.broker.list",
)  # fmt: skip
#: Ours. The first sends a password in the clear over SASL_PLAINTEXT; the second is a program that prints a token.
ALLOW_PLAINTEXT, TOKEN_COMMAND = "kgm.allow.plaintext.password", "kgm.oauthbearer.token.command"

#: What kgm reads.
USED = frozenset(_JAVA + _LIBRDKAFKA + (ALLOW_PLAINTEXT, TOKEN_COMMAND))

#: What would change how kgm logs in, and what kgm does not do: worth a warning.
NOT_DONE = frozenset({
    "config.providers", "sasl.client.callback.handler.class", "sasl.login.class",
    "sasl.oauthbearer.jwt.retriever.class", "security.providers",
    "ssl.cipher.suites", "ssl.curves.list", "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.sigalgs.list", "ssl.trustmanager.algorithm", "ssl.crl.location",
    "ssl.providers", "ssl.engine.location", "sasl.oauthbearer.grant.type",
})  # fmt: skip

#: What has no meaning for kgm and does no harm: a client.properties is shared with other tools.
_OTHERS = frozenset({
    "acks", "allow.auto.create.topics", "auto.offset.reset", "batch.size", "bootstrap.controllers", "buffer.memory",
    "check.crcs", "client.dns.lookup", "client.id", "client.rack", "compression.type", "connections.max.idle.ms",
    "debug", "default.api.timeout.ms", "default.list.key.serde.inner", "delivery.timeout.ms", "enable.idempotence",
    "exclude.internal.topics", "heartbeat.interval.ms", "interceptor.classes", "isolation.level",
    "key.deserializer", "key.serializer", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "request.timeout.ms", "retries", "send.buffer.bytes", "receive.buffer.bytes", "session.timeout.ms",
    "throw.on.fetch.stable.offset.unsupported", "value.deserializer", "value.serializer",
    "max.request.size", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records",
})  # fmt: skip
_OTHER_GROUPS = (
    "auto.commit.", "auto.include.", "builtin.", "compression.", "enable.auto.", "enable.metrics.", "fetch.", "group.",
    "log.", "message.", "metadata.", "metric.", "metrics.", "partition.", "partitioner.", "queue", "reconnect.",
    "retry.", "sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.", "share.", "socket.", "statistics.", "topic.",
    "transaction.", "transactional.", "client.", "broker.", "api.", "basic.auth.", "schema.registry.",
)  # fmt: skip
_SECRET = re.compile(
    r"password|passphrase|secret|jaas\.config|credential|bearer\.config|user\.info|\btoken\b(?!\.endpoint|\.command)|"
    r"(^|\.)(private\.)?key(\.pem)?$|api\.key"
)
#: Keys that match by accident.
_NOT_SECRET = frozenset({"sasl.oauthbearer.client.credentials.client.id", ALLOW_PLAINTEXT, "ssl.key.location"})


def is_secret(key: str) -> bool:
    """Whether a setting's value must never be shown, by its name; also for names that nobody knows."""
    return key not in _NOT_SECRET and _SECRET.search(key.lower()) is not None


def is_known(key: str) -> bool:
    """Whether Kafka's clients, librdkafka or kgm have such a setting."""
    return key in USED or key in NOT_DONE or key in _OTHERS or key.startswith(_OTHER_GROUPS)


def nearest(key: str, also: Iterable[str] = ()) -> str | None:
    """The setting that was probably meant; `also` may be meant too."""
    import difflib

    found = difflib.get_close_matches(key, sorted({*USED, *also}), n=1, cutoff=0.8)
    return found[0] if found else None


def environment_name(key: str) -> str:
    """`KGM_SASL_PASSWORD` for sasl.password."""
    return ("" if key.startswith("kgm.") else "KGM_") + key.upper().replace(".", "_")


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """The text without the secrets: a broker may well repeat what it was sent."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text
