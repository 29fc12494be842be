"""IAM on Amazon MSK: the token is a request that is signed as AWS documents it, for the brokers' region."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
import sys
import time
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from kgm.client.security import make_security
from kgm.client.security.msk_iam import region_of
from kgm.client.transport.connection import BrokerConnection
from kgm.client.transport.deadline import Deadline
from kgm.model.errors import AuthenticationError, UsageError
from kgm.operations.settings.loading import load_settings
from kgm.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.client.security.test_sasl import Answer, Broker
from tests.kafka.secured import CANARY

pytestmark = pytest.mark.shows("MSK IAM")

SETTINGS = {
    "security.protocol": "SASL_PLAINTEXT", "kgm.allow.plaintext.password": "true", "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}  # fmt: skip
KEY_ID, SECRET = "AKIDEXAMPLE", f"wJalr/{CANARY}"
OK = SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])


@pytest.fixture(autouse=True)
def aws(monkeypatch, tmp_path):
    """An operator with keys in the environment and another pair in a profile; no machine role is asked for."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    profiles = tmp_path / "credentials"
    profiles.write_text(f"[night]\naws_access_key_id = AKIDNIGHT\naws_secret_access_key = night/{CANARY}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


def token_for(settings):
    """What the broker is sent as a bearer token, and how often a connection was opened for it."""
    security, _ = make_security(settings)
    with Broker(OK, Answer()) as broker:
        BrokerConnection.connect(broker.address, Deadline.after(10_000), security).close()
    assert broker.seen[0].mechanism == "OAUTHBEARER"
    head, auth, end = broker.seen[1].auth_bytes.split(b"\x01", 2)
    assert (head, end) == (b"n,,", b"\x01")
    assert auth.startswith(b"auth=Bearer ")
    return auth.removeprefix(b"auth=Bearer ").decode()


def signed_request(token):
    """(host, parameters) of the request in a token."""
    where = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return where.netloc, dict(parse_qsl(where.query))


def signature(host, parameters, secret):
    """By AWS Signature Version 4, "Create a signed AWS API request", for a signed URL without a body."""
    signed = {name: value for name, value in parameters.items() if name not in ("X-Amz-Signature", "User-Agent")}
    query = "&".join(f"{quote(name, safe='-_.~')}={quote(signed[name], safe='-_.~')}" for name in sorted(signed))
    request = "\n".join(["GET", "/", query, f"host:{host}", "", "host", hashlib.sha256(b"").hexdigest()])
    _, scope = signed["X-Amz-Credential"].split("/", 1)
    wanted = ["AWS4-HMAC-SHA256", signed["X-Amz-Date"], scope, hashlib.sha256(request.encode()).hexdigest()]
    key = f"AWS4{secret}".encode()
    for part in [*scope.split("/"), "\n".join(wanted)]:
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


@pytest.mark.parametrize(
    ("options", "key_id", "secret"),
    [("", KEY_ID, SECRET), (' awsProfileName="night" awsDebugCreds="false"', "AKIDNIGHT", f"night/{CANARY}")],
    ids=["environment", "profile"],
)
def test_the_request_in_the_token_is_signed(options, key_id, secret):
    token = token_for({**SETTINGS, "sasl.jaas.config": SETTINGS["sasl.jaas.config"].replace(";", f"{options};")})
    host, parameters = signed_request(token)
    assert host == "kafka.eu-west-3.amazonaws.com"
    assert parameters["Action"] == "kafka-cluster:Connect"
    day = parameters["X-Amz-Date"][:8]
    assert parameters["X-Amz-Credential"] == f"{key_id}/{day}/eu-west-3/kafka-cluster/aws4_request"
    made = datetime.strptime(parameters["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs(time.time() - made.timestamp()) < 300
    assert parameters["X-Amz-Signature"] == signature(host, parameters, secret)


def test_the_java_library_s_settings_for_oauthbearer():
    settings = {
        **SETTINGS, "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
    }  # fmt: skip
    assert signed_request(token_for(settings))[0] == "kafka.eu-west-3.amazonaws.com"


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("b-2.orders.a1b2c3.c4.kafka.us-east-1.amazonaws.com", "us-east-1"),
        ("boot-a1b2c3.c1.kafka-serverless.ap-southeast-2.amazonaws.com", "ap-southeast-2"),
        ("b-1.orders.a1b2c3.c4.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("B-1.ORDERS.A1B2C3.C4.KAFKA.EU-WEST-1.AMAZONAWS.COM.", "eu-west-1"),
        ("kafka.example.com", "eu-west-3"),
    ],
)
def test_the_region_is_that_of_the_broker(host, region):
    assert region_of(host, {"AWS_REGION": "eu-west-3"}) == region


def test_without_a_region():
    assert region_of("10.0.0.1", {"AWS_DEFAULT_REGION": "eu-north-1"}) == "eu-north-1"
    with pytest.raises(UsageError, match=r"10\.0\.0\.1 does not have an AWS region") as caught:
        region_of("10.0.0.1", {})
    assert "AWS_REGION" in caught.value.hint


def test_without_credentials(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AuthenticationError, match="cannot be signed") as caught:
        token_for(SETTINGS)
    assert caught.value.facts == ("no credentials were found",)
    settings = {**SETTINGS, "sasl.jaas.config": 'x.IAMLoginModule required awsProfileName="day";'}
    with pytest.raises(AuthenticationError) as caught:
        token_for(settings)
    assert "day" in caught.value.facts[0]


def test_a_refused_token_is_not_repeated():
    security, _ = make_security(SETTINGS)

    def refuse(message):
        token = message.auth_bytes.split(b"Bearer ")[1].split(b"\x01")[0].decode()
        return Answer(error_code=58, error_message=f"[1a2b]: Access denied for {token}")

    with (
        Broker(OK, refuse) as broker,
        pytest.raises(AuthenticationError, match="does not accept the AWS credentials") as caught,
    ):
        BrokerConnection.connect(broker.address, Deadline.after(10_000), security)
    assert any("Access denied for ***" in fact for fact in caught.value.facts), caught.value.facts


def test_the_handlers_of_amazon_s_library_need_no_warning(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))
    loaded = load_settings(properties_file=str(path), environment={"HOME": str(tmp_path)})
    assert not [text for text in loaded.warnings if "sasl.client.callback.handler.class" in text]


def test_without_the_library():
    code = (
        "import sys; sys.modules['aws_msk_iam_sasl_signer'] = None\n"
        "from kgm.client.security import make_security\n"
        f"make_security({SETTINGS!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "IAM on Amazon MSK needs an extra" in done.stderr
