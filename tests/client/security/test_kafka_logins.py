"""Every login at every listener of a real Kafka, and what is said when it is the wrong one."""

from __future__ import annotations

import time
import unicodedata

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kgm.client import connect
from kgm.client.security import make_security
from kgm.client.transport.bootstrap import parse_bootstrap
from kgm.model.errors import AuthenticationError, KgmError
from kgm.protocol.apis import ApiKey
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.list_groups_response import ListGroupsResponse
from tests.kafka.certificates import KEY_PASSWORD, STORE_PASSWORD
from tests.kafka.java_tools import consumer_group_command
from tests.kafka.secured import CANARY, MECHANISMS, SESSION_MS, jaas

pytestmark = [pytest.mark.shows("TLS", "SASL"), pytest.mark.kafka, pytest.mark.slow]

BUDGET_MS = 60_000
#: No other module has to do with these groups, nor with `caller`.
GROUP, UNSEEN = "logins", "logins-unseen"


@pytest.fixture(scope="module")
def kafka(secured):
    """The secured broker, with a group that `caller` and the holder of the client's certificate may see, and one that
    only a super user sees."""
    secured.add_absent_member(GROUP, "a")
    secured.add_absent_member(UNSEEN, "a")
    secured.allow("caller", "DESCRIBE", group=GROUP)
    secured.allow("mtls-user", "DESCRIBE", group=GROUP)
    return secured


def groups(settings):
    """Log in and list: which of the two groups is visible tells who we are to the broker."""
    security, warnings = make_security(settings)
    assert warnings == ()
    with connect(settings["bootstrap.servers"], timeout_ms=BUDGET_MS, security=security) as cluster:
        return {row.group_id for row in cluster.list_groups().groups} & {GROUP, UNSEEN}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_login_makes_us_that_user(kafka, listener, mechanism):
    assert groups(kafka.settings(listener, "caller", mechanism)) == {GROUP}
    assert groups(kafka.settings(listener, "nobody", mechanism)) == set()


def test_names_and_passwords_that_quoting_and_saslprep_would_spoil(kafka):
    """The credential is made by librdkafka, which normalizes no more than Kafka's own client does."""
    user, password = "o=d,d=2C", f"\u00fc\u00aa\u2168\u00ad'\\ {CANARY}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    admin = kafka.admin()
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, info, password.encode())]
    ).values():
        future.result(30)
    settings = kafka.settings("SASL_PLAINTEXT", "nobody") | {"sasl.username": user, "sasl.password": password}
    del settings["sasl.jaas.config"]
    assert groups(settings) == set()
    quoted = password.replace("\\", "\\\\")
    assert groups(settings | {"sasl.jaas.config": jaas("SCRAM-SHA-512", user, quoted)}) == set()
    with pytest.raises(AuthenticationError, match="does not accept"):
        groups(settings | {"sasl.password": unicodedata.normalize("NFKC", password)})


def test_tls_without_a_login_is_anonymous(kafka):
    assert groups(kafka.settings("SSL")) == {GROUP, UNSEEN}
    assert groups(kafka.settings("PLAINTEXT")) == {GROUP, UNSEEN}


def test_a_client_certificate_makes_us_its_subject(kafka):
    certificates = kafka.certificates
    client, settings = certificates.client, kafka.settings("MTLS")
    assert groups(settings) == {GROUP}
    bare = {key: value for key, value in settings.items() if "keystore" not in key and "truststore" not in key}
    for ours in (
        {"ssl.keystore.certificate.chain": client.chain, "ssl.keystore.key": client.encrypted_key, "ssl.key.password": KEY_PASSWORD},
        {"ssl.certificate.location": str(client.chain_file), "ssl.key.location": str(client.key_file)},
        {"ssl.keystore.location": str(client.p12_file), "ssl.keystore.password": STORE_PASSWORD},
    ):  # fmt: skip
        store = {"ssl.truststore.location": str(certificates.ca_p12_file), "ssl.truststore.password": STORE_PASSWORD}
        for trust in (
            {"ssl.truststore.certificates": certificates.ca},
            {"ssl.ca.location": str(certificates.ca_file)},
            store,
        ):
            assert groups(bare | ours | trust) == {GROUP}


@pytest.mark.parametrize(
    ("listener", "as_if", "says"),
    [
        ("SSL", "PLAINTEXT", "this port expects TLS"),
        ("SASL_SSL", "SASL_PLAINTEXT", "this port expects TLS"),
        ("PLAINTEXT", "SSL", "this port expects plaintext"),
        ("SASL_PLAINTEXT", "SASL_SSL", "this port expects plaintext"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "this listener requires SASL"),
        ("SASL_SSL", "SSL", "this listener requires SASL"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "does not use SASL on this listener"),
        ("SSL", "SASL_SSL", "does not use SASL on this listener"),
        ("MTLS", "SSL", "may require a client certificate"),
    ],
)
def test_the_wrong_kind_of_listener_is_named(kafka, listener, as_if, says):
    settings = kafka.settings(as_if) | {"bootstrap.servers": kafka.bootstrap_of(listener)}
    with pytest.raises(KgmError, match=says) as caught:
        groups(settings)
    assert caught.value.hint


def test_certificates_that_do_not_fit(kafka):
    certificates, settings = kafka.certificates, kafka.settings("SSL")
    with pytest.raises(AuthenticationError, match="is not trusted"):
        groups(settings | {"ssl.truststore.location": str(certificates.other_ca_file)})
    elsewhere = {"bootstrap.servers": kafka.bootstrap_of("SSL").replace("127.0.0.1", "localhost")}
    with pytest.raises(AuthenticationError, match="certificate is not for localhost"):
        groups(settings | elsewhere)
    security, warnings = make_security(settings | {"ssl.endpoint.identification.algorithm": ""})
    assert len(warnings) == 1
    with connect(elsewhere["bootstrap.servers"], timeout_ms=BUDGET_MS, security=security) as cluster:
        assert cluster.cluster_id
    stranger = {"ssl.keystore.location": str(certificates.stranger.both_file)}
    with pytest.raises(AuthenticationError, match="does not accept the client certificate"):
        groups(kafka.settings("MTLS") | stranger)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_that_is_refused(kafka, mechanism):
    config = jaas(mechanism, "caller", f"not-{CANARY}")
    if mechanism == "OAUTHBEARER":
        config = config.replace(";", ' unsecuredLoginLifetimeSeconds="-600";')
    with pytest.raises(AuthenticationError, match="does not accept") as caught:
        groups(kafka.settings("SASL_SSL", "caller", mechanism) | {"sasl.jaas.config": config})
    assert caught.value.json_code == "SASL_AUTHENTICATION_FAILED"
    assert CANARY not in caught.value.message + repr(caught.value.facts) + (caught.value.hint or "")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_session_that_ends_is_renewed(kafka, mechanism):
    settings = kafka.settings("SHORT", "caller", mechanism)
    security, _ = make_security(settings)
    with connect(settings["bootstrap.servers"], timeout_ms=BUDGET_MS, security=security) as cluster:
        connection = cluster.brokers.connection(parse_bootstrap(settings["bootstrap.servers"])[0], cluster.deadline)
        version = connection.version(ApiKey.LIST_GROUPS)

        def ask():
            return connection.call(ListGroupsRequest(), ListGroupsResponse, version=version, deadline=cluster.deadline)

        ask()
        assert connection._log_in_at <= time.monotonic() + 0.85 * SESSION_MS / 1000
        time.sleep(1.1)  # a broker takes no second login within a second
        connection._log_in_at = 0.0
        ask()
        assert 0 < connection._log_in_at <= time.monotonic() + 0.85 * SESSION_MS / 1000
        ask()
        assert not connection.closed


def test_the_same_file_works_for_kafkas_own_command(kafka, tmp_path):
    from kgm.operations.settings.loading import load_settings

    path = tmp_path / "client.properties"
    settings = kafka.settings("SASL_SSL", "caller")
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    out = consumer_group_command(kafka.bootstrap_of("SASL_SSL"), "--list", "--command-config", str(path))
    assert out.split() == [GROUP]
    assert groups(dict(load_settings(properties_file=str(path)).client)) == {GROUP}
