"""The settings of Kafka clients, by how kgm treats them: used, secret, ignored, or not supported.

From `AdminClientConfig`, `ConsumerConfig`, `ProducerConfig` of Kafka 4.3 and librdkafka's CONFIGURATION.md."""

import base64
import binascii
import re

from kgm.model.client_setting_names import OTHER_NAMES

_JAVA = (
    "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config",
    "sasl.login.callback.handler.class", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.kerberos.service.name",
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
#: kgm's own settings. The first one allows a plaintext password over SASL_PLAINTEXT; the second is a program that
#: prints a token.
ALLOW_PLAINTEXT, TOKEN_COMMAND = "kgm.allow.plaintext.password", "kgm.oauthbearer.token.command"

#: Classes of Amazon's Java library for IAM on MSK: `client.security.msk_iam` does what they do.
MSK_HANDLERS = frozenset({
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
})  # fmt: skip

#: What kgm reads.
USED = frozenset(_JAVA + _LIBRDKAFKA + (ALLOW_PLAINTEXT, TOKEN_COMMAND))

#: Settings that would change how kgm logs in, but that kgm does not support: they cause a warning.
NOT_DONE = frozenset({
    "config.providers", "sasl.client.callback.handler.class", "sasl.login.class",
    "sasl.oauthbearer.jwt.retriever.class", "security.providers",
    "ssl.cipher.suites", "ssl.curves.list", "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.sigalgs.list", "ssl.trustmanager.algorithm", "ssl.crl.location",
    "ssl.providers", "ssl.engine.location", "sasl.oauthbearer.grant.type",
})  # fmt: skip

#: Settings that kgm ignores: a client.properties file is shared with other tools.
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
#: Keys that match the pattern and are not secret.
_NOT_SECRET = frozenset({"sasl.oauthbearer.client.credentials.client.id", ALLOW_PLAINTEXT, "ssl.key.location"})


def is_secret(key: str) -> bool:
    """Whether the value of a setting must never be shown, judging by its name, which may be an unknown one."""
    return key not in _NOT_SECRET and _SECRET.search(key.lower()) is not None


def is_known(key: str) -> bool:
    """Whether Kafka's clients, librdkafka or kgm have this setting."""
    return key in USED or key in NOT_DONE or key in _OTHERS or key.startswith(_OTHER_GROUPS)


def is_named(key: str) -> bool:
    """Whether the key is the full name of a setting of Kafka's clients, librdkafka or kgm, and so cannot be part of a
    secret. `is_known` also accepts a key that only begins like one."""
    if key in USED or key in NOT_DONE:
        return True

    return key in OTHER_NAMES


def environment_name(key: str) -> str:
    """`KGM_SASL_PASSWORD` for sasl.password."""
    return ("" if key.startswith("kgm.") else "KGM_") + key.upper().replace(".", "_")


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """The text without the secrets: a broker may echo what it was sent, verbatim, in base64 or in hexadecimal."""
    wanted = [secret for secret in secrets if secret]
    for secret in wanted:
        text = text.replace(secret, "***")
    # A shorter secret would match in every other word.
    hidden = [secret.encode() for secret in wanted if len(secret) >= 3]
    return re.sub(r"[A-Za-z0-9+/_-]{4,}=*", lambda match: "***" if _encodes(match[0], hidden) else match[0], text)


def _encodes(word: str, secrets: list[bytes]) -> bool:
    """Whether a word is base64 or hexadecimal text that contains one of the secrets, at any offset."""
    bare = word.rstrip("=").replace("-", "+").replace("_", "/")
    for start in range(4):
        piece = bare[start:]
        piece = piece[: len(piece) - 1] if len(piece) % 4 == 1 else piece
        decoded = base64.b64decode(piece + "=" * (-len(piece) % 4))
        if any(secret in decoded for secret in secrets):
            return True
    for start in range(2):
        digits = word[start : start + (len(word) - start) // 2 * 2]
        try:
            decoded = binascii.unhexlify(digits)
        except ValueError:
            continue
        if any(secret in decoded for secret in secrets):
            return True
    return False
