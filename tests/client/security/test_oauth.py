"""Tokens: from an endpoint, a file, a command, or Kafka's unsecured ones; never in an error."""

from __future__ import annotations

import base64
import json
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kgm.client.failures import ConnectError
from kgm.client.security.jaas import parse_jaas
from kgm.client.security.oauth import tokens_of, unsecured
from kgm.client.security.sasl import BearerLogin
from kgm.client.transport.deadline import Deadline
from kgm.model.client_settings import TOKEN_COMMAND
from kgm.model.errors import AuthenticationError, KgmError, UsageError
from tests.kafka.secured import CANARY

TOKEN = f"eyJ.{CANARY}.x-_~+/="
URL = "sasl.oauthbearer.token.endpoint.url"
MODULE = "o.OAuthBearerLoginModule required"


class Endpoint:
    """Answers every POST alike, and remembers what was asked."""

    def __init__(self, status=200, body=None, headers=(), context=None):
        self.seen = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.seen.append((self.path, self.headers["Authorization"], form))
                data = json.dumps({"access_token": TOKEN, "expires_in": 3600}).encode() if body is None else body
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.server.server_port}/token"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def get(settings, jaas=None, ms=10_000):
    return tokens_of(settings, None if jaas is None else parse_jaas(jaas)).get(Deadline.after(ms)).value


def no_secret(error: KgmError):
    assert CANARY not in error.message + repr(error.facts) + (error.hint or "")
    assert error.__cause__ is None or CANARY not in str(error.__cause__)


def test_client_credentials_of_the_jaas_options():
    with Endpoint() as endpoint:
        assert get({URL: endpoint.url}, f'{MODULE} clientId="id" clientSecret="{CANARY}" scope="a b";') == TOKEN
    login = base64.b64encode(f"id:{CANARY}".encode()).decode()
    assert endpoint.seen == [("/token", f"Basic {login}", "grant_type=client_credentials&scope=a+b")]


@pytest.mark.parametrize("prefix", ["sasl.oauthbearer.client.credentials.client", "sasl.oauthbearer.client"])
def test_client_credentials_of_the_settings(prefix):
    settings = {f"{prefix}.id": "i:d", f"{prefix}.secret": CANARY, "sasl.oauthbearer.header.urlencode": "true"}
    with Endpoint() as endpoint:
        assert get({URL: endpoint.url, **settings}) == TOKEN
    login = base64.b64decode(endpoint.seen[0][1].partition(" ")[2])
    assert login == f"i%3Ad:{CANARY}".encode()


def test_a_token_is_fetched_once_and_again_when_it_ends():
    with Endpoint() as endpoint:
        tokens = tokens_of({URL: endpoint.url}, parse_jaas(f'{MODULE} clientId="i" clientSecret="s";'))
        deadline = Deadline.after(10_000)
        assert tokens.get(deadline) is tokens.get(deadline)
    body = json.dumps({"access_token": "short", "expires_in": 20}).encode()
    with Endpoint(body=body) as endpoint:
        tokens = tokens_of({URL: endpoint.url}, parse_jaas(f'{MODULE} clientId="i" clientSecret="s";'))
        assert tokens.get(deadline).value == tokens.get(deadline).value == "short"
    assert len(endpoint.seen) == 2


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ((401, b'{"error":"invalid_client","error_description":"no such client"}'), "error: invalid_client"),
        ((500, f"<html>{CANARY}".encode()), "HTTP 500"),
        ((400, f'{{"error": ["{CANARY}"]}}'.encode()), "HTTP 400"),
        ((302, b"", [("Location", "http://127.0.0.1:1/")]), "HTTP 302"),
        ((200, CANARY.encode()), "did not return JSON with an access_token"),
        ((400, f'{{"error": "no {CANARY}!"}}'.encode()), "error: no ***!"),
        ((200, b"[1]"), "did not return JSON with an access_token"),
        ((200, b'{"access_token": 1}'), "did not return JSON with an access_token"),
        ((200, b"[" * 100_000), "did not return JSON with an access_token"),
        ((200, f'{{"access_token": "{CANARY}\\u0001auth=x"}}'.encode()), "did not return a bearer token"),
    ],
)
def test_an_endpoint_that_gives_no_token(endpoint, says):
    with Endpoint(*endpoint) as running, pytest.raises(AuthenticationError) as caught:
        get({URL: running.url}, f'{MODULE} clientId="i" clientSecret="{CANARY}";')
    assert says in caught.value.message + repr(caught.value.facts)
    no_secret(caught.value)


def test_an_endpoint_that_does_not_answer():
    with Endpoint() as endpoint:
        pass
    with pytest.raises(ConnectError, match="does not answer") as caught:
        get({URL: endpoint.url}, f'{MODULE} clientId="i" clientSecret="{CANARY}";')
    assert caught.value.exit_code == 5
    no_secret(caught.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://x/", "is not an http"), ("http:///x", "is not an http"), (f"https://u:{CANARY}@x/", "contains credentials"),
        ("http://idp.example/token", "to idp.example in plaintext"), ("https://x/", "a client id and a client secret"),
    ],
)  # fmt: skip
def test_urls_that_are_refused(url, says):
    with pytest.raises(UsageError, match=says) as caught:
        tokens_of({URL: url}, None)
    no_secret(caught.value)


@pytest.mark.slow
def test_the_endpoint_has_a_trust_store_of_its_own(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker.both_file)
    login = 'clientId="i" clientSecret="s"'
    with Endpoint(context=context) as endpoint:
        assert get({URL: endpoint.url}, f'{MODULE} {login} ssl.truststore.location="{certificates.ca_file}";') == TOKEN
        assert get({URL: endpoint.url, "https.ca.location": str(certificates.ca_file)}, f"{MODULE} {login};") == TOKEN
        with pytest.raises(ConnectError, match="does not answer") as caught:
            get({URL: endpoint.url}, f"{MODULE} {login};")
        assert "certificate verify failed" in repr(caught.value.facts).lower()


def test_a_token_in_a_file(tmp_path):
    path = tmp_path / "a token"
    path.write_text(f"{TOKEN}\n")
    assert get({URL: path.as_uri()}) == TOKEN


def command(code):
    return f'{sys.executable} -c "{code}"'


@pytest.mark.slow
def test_a_token_command():
    assert get({TOKEN_COMMAND: command(f"print('{TOKEN}')")}) == TOKEN
    answer = {"access_token": TOKEN, "expires_in": 60}
    assert get({TOKEN_COMMAND: command(f"import json; print(json.dumps({answer}))")}) == TOKEN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "says"),
    [
        (command(f"import sys; print('{CANARY}', file=sys.stderr); sys.exit(3)"), "exited with code 3"),
        (command(f"print('two words {CANARY}')"), "did not return a bearer token"),
        ("/no/such/program x", "cannot be run: No such file"),
        ("'unclosed", "not a valid command line"),
        (command("import time; time.sleep(60)"), "did not finish within"),
    ],
)
def test_a_token_command_that_fails(line, says):
    with pytest.raises(AuthenticationError, match=says) as caught:
        get({TOKEN_COMMAND: line}, ms=1_500)
    no_secret(caught.value)


def claims_of(token):
    head, body, signature = token.split(".")
    assert (json.loads(base64.urlsafe_b64decode(head + "==")), signature) == ({"alg": "none"}, "")
    return json.loads(base64.urlsafe_b64decode(body + "=="))


def test_unsecured_tokens_only_when_kafkas_option_asks():
    options = {
        "unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginNumberClaim_n": "5", "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
    }  # fmt: skip
    before = time.monotonic()
    token = unsecured(options, 1000.0009)
    assert before + 60 <= token.expires_at <= time.monotonic() + 60
    assert claims_of(token.value) == {"iat": 1000.0, "exp": 1060.0, "sub": "alice", "n": 5.0, "scope": ["a", "b"]}
    with pytest.raises(UsageError, match="unsecuredLoginStringClaim_sub"):
        unsecured({"unsecuredLoginNumberClaim_n": "1"}, 0)
    for bad in (
        {"unsecuredLoginNumberClaim_n": "x"},
        {"unsecuredLoginListClaim_l": ""},
        {"unsecuredLoginLifetimeSeconds": "x"},
    ):
        with pytest.raises(UsageError):
            unsecured({"unsecuredLoginStringClaim_sub": "a", **bad}, 0)
    with pytest.raises(UsageError, match="no token source"):
        tokens_of({}, parse_jaas(f"{MODULE};"))


def test_the_message_and_its_extensions(tmp_path):
    path = tmp_path / "t"
    path.write_text("abc")
    bearer = BearerLogin({URL: path.as_uri()}, parse_jaas(f'{MODULE} extension_logicalCluster="lkc-1";'))
    talk = bearer.exchange(Deadline.after(60_000), "broker")
    assert next(talk) == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"
    assert talk.send(b'{"status":"invalid_token"}') == b"\x01"
    bearer = BearerLogin({URL: path.as_uri(), "sasl.oauthbearer.extensions": "a=b,c=d"}, None)
    talk = bearer.exchange(Deadline.after(60_000), "broker")
    assert next(talk) == b"n,,\x01auth=Bearer abc\x01a=b\x01c=d\x01\x01"
    with pytest.raises(StopIteration):
        talk.send(b"")
    for bad in ("auth=x", "a1=b", "a=\x01"):
        with pytest.raises(UsageError, match="not a valid extension"):
            BearerLogin({URL: path.as_uri(), "sasl.oauthbearer.extensions": bad}, None)
