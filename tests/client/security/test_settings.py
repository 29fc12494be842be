"""Settings to security: what is wrong is named, with what to do, and shows no secret."""

import subprocess
import sys

import pytest

from kgm.client.security import make_security
from kgm.client.transport.connection import Plaintext
from kgm.model.client_settings import USED, environment_name, is_known, is_secret
from kgm.model.errors import KgmError, NotFoundError, UsageError
from tests.kafka.secured import CANARY, jaas

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("settings", "says", "hint"),
    [
        ({"security.protocol": "TLS"}, "is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", ""),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set", "SCRAM-SHA-512"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "GSSAPI: no service name is set", "sasl.kerberos.service.name=kafka"),
        ({**SASL, "sasl.mechanism": "DIGEST-MD5"}, "kgm supports PLAIN", ""),
        (SASL, "PLAIN: no username is set", "PlainLoginModule required"),
        ({**SASL, "sasl.username": "u"}, "PLAIN: no password is set", "PlainLoginModule required"),
        ({**SASL, "sasl.username": "u", "sasl.password": f"{CANARY}\0"}, "password contains a NUL", ""),
        ({**SASL, "sasl.jaas.config": jaas("SCRAM-SHA-256", "u", CANARY)}, "needs PlainLoginModule", ""),
        ({**SASL, "sasl.jaas.config": f'a.PlainLoginModule required username="u" password="{CANARY}"'}, "semicolon", ""),
        ({**SASL, "security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas("PLAIN", "u", CANARY)},
         "PLAIN over SASL_PLAINTEXT sends the password in plaintext", "kgm.allow.plaintext.password=true"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "kgm.oauthbearer.token.command": "x"},
         "sends the token in plaintext", "kgm.allow.plaintext.password=true"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "no token source is configured", "token.endpoint.url"),
        ({**SASL, "sasl.jaas.config": f"x ${{file:/a:{CANARY}}}", "config.providers": "file"}, "config provider", "KGM_"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "kgm supports TLSv1.2 and TLSv1.3", ""),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"}, "is https, or empty", ""),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, "always verifies", "ssl.ca.location"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": CANARY}, "contains no PEM certificate", "BEGIN"),
        ({"security.protocol": "SSL", "ssl.keystore.key": CANARY}, "ssl.keystore.certificate.chain is not", ""),
        ({"security.protocol": "SSL", "ssl.certificate.location": "x"}, "ssl.key.location is not", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_opened(settings, says, hint):
    with pytest.raises(UsageError) as caught:
        make_security(settings)
    assert says in caught.value.message
    assert hint in (caught.value.hint or "")
    assert CANARY not in caught.value.message + repr(caught.value.facts) + (caught.value.hint or "")


@pytest.mark.parametrize(
    "setting", ["ssl.truststore.location", "ssl.ca.location", "ssl.keystore.location", "ssl.certificate.location"]
)
def test_a_file_that_is_not_there_is_not_found(setting, tmp_path):
    settings = {"security.protocol": "SSL", setting: str(tmp_path / "none"), "ssl.key.location": "y"}
    if "certificate" not in setting:
        del settings["ssl.key.location"]
    with pytest.raises(NotFoundError) as caught:
        make_security(settings)
    assert setting in caught.value.message


def test_without_a_protocol_a_login_is_not_used_and_that_is_said():
    security, warnings = make_security({"sasl.jaas.config": jaas("PLAIN", "u", CANARY)})
    assert isinstance(security, Plaintext)
    assert "sasl.jaas.config is set, but security.protocol is not" in warnings[0]
    assert CANARY not in warnings[0]
    assert make_security({"sasl.username": "u", "security.protocol": "plaintext"})[1] == ()


def test_the_spelling_of_librdkafka_is_known():
    settings = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "u",
        "sasl.password": CANARY,
    }
    security, warnings = make_security({**settings, "ssl.endpoint.identification.algorithm": "none"})
    assert security.name == "SASL_SSL"
    assert security.mechanism == "SCRAM-SHA-512"
    assert "any holder of a trusted certificate" in warnings[0]
    assert CANARY not in repr(security)


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.password",
        "ssl.truststore.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "my.api.key", "sasl.pasword.password",
        "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase",
        "basic.auth.user.info", "listener.name.x.sasl.jaas.config", "Sasl.Password", "sasl.oauthbearer.token",
    ],
)  # fmt: skip
def test_secrets_are_known_by_their_names(key):
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "sasl.username", "bootstrap.servers", "ssl.truststore.location", "ssl.key.location", "sasl.mechanism",
        "sasl.oauthbearer.token.endpoint.url", "kgm.oauthbearer.token.command", "kgm.allow.plaintext.password",
        "sasl.oauthbearer.client.credentials.client.id", "ssl.truststore.certificates", "key.deserializer",
    ],
)  # fmt: skip
def test_what_is_no_secret_may_be_shown(key):
    assert not is_secret(key)
    assert is_known(key)


def test_names():
    assert not is_known("sasl.mechansim")
    assert environment_name("sasl.jaas.config") == "KGM_SASL_JAAS_CONFIG"
    assert environment_name("kgm.allow.plaintext.password") == "KGM_ALLOW_PLAINTEXT_PASSWORD"
    assert len({environment_name(key) for key in USED}) == len(USED)


@pytest.mark.slow
def test_plaintext_costs_no_import_of_ssl():
    code = (
        "import sys; from kgm.client.security import make_security; make_security({}); sys.exit('ssl' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("name", ["admin.AdminClientConfig", "consumer.ConsumerConfig", "producer.ProducerConfig"])
def test_every_setting_of_kafkas_clients_is_known(name):
    """Their `main` prints the documentation of every setting."""
    import re

    from tests.kafka.java_tools import run_tool

    listed = re.findall(r'<h4><a id="([a-z0-9._]+)"', run_tool(f"org.apache.kafka.clients.{name}").stdout)
    assert len(listed) > 80
    assert [key for key in listed if not is_known(key)] == []


def test_a_refusal_is_one_of_ours():
    with pytest.raises(KgmError):
        make_security({"security.protocol": "?"})
