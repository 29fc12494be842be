"""SCRAM: the RFC's own exchange, a server written from the RFC, and servers that cheat."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgm.client.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramError, exchange

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
PROOF = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun():
    """The exchange of RFC 7677, its first message sent."""
    found = exchange("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(found) == f"n,,n=user,r={NONCE}".encode()
    return found


def test_the_exchange_of_rfc_7677():
    talk = begun()
    final = talk.send(FIRST)
    assert final == (
        f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    with pytest.raises(StopIteration):
        talk.send(PROOF)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "not valid SCRAM"),
        (b"\xff", "not UTF-8"),
        (b"e=unknown-user", "refuses the login: unknown-user"),
        (FIRST.replace(b"r=rO", b"r=xO"), "does not extend the client's"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "does not extend the client's"),
        (FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (FIRST.replace(b"i=4096", b"i=0"), "0 iterations"),
        (FIRST.replace(b"i=4096", f"i={MAX_ITERATIONS + 1}".encode()), "iterations"),
        (FIRST.replace(b"i=4096", b"i=99999999999999999999"), "not valid SCRAM"),
        (FIRST.replace(b"i=4096", b"i=-1"), "not valid SCRAM"),
        (FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "not valid SCRAM"),
        (FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s=a"), "invalid base64"),
        (b"m=must-know," + FIRST, "not valid SCRAM"),
    ],
)
def test_a_first_message_that_no_honest_server_sends(answer, says):
    with pytest.raises(ScramError, match=says):
        begun().send(answer)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (PROOF[:2] + b"A" + PROOF[3:], "signature is wrong"),
        (b"v=", "not valid SCRAM"),
        (b"v=a", "invalid base64"),
        (b"", "not valid SCRAM"),
        (b"e=invalid-proof", "refuses the login: invalid-proof"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_found_out(answer, says):
    talk = begun()
    talk.send(FIRST)
    with pytest.raises(ScramError, match=says) as caught:
        talk.send(answer)
    assert "pencil" not in str(caught.value)


def test_a_delegation_token_says_so():
    assert next(exchange("SCRAM-SHA-256", "id", "hmac", "x", token_auth=True)) == b"n,,n=id,r=x,tokenauth=true"


def serve(name, password, client_first, salt, count):
    """A server by RFC 5802: (its first message, a check of the client's last that gives the server's last)."""
    bare = client_first.decode().removeprefix("n,,")
    nonce = bare.partition(",r=")[2] + "server"
    first = f"r={nonce},s={base64.b64encode(salt).decode()},i={count}"
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, count)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()

    def check(client_final):
        unproved, _, proof = client_final.decode().rpartition(",p=")
        signed = f"{bare},{first},{unproved}".encode()
        signature = hmac.digest(stored, signed, name)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        assert hashlib.new(name, key).digest() == stored
        return b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name))

    return first.encode(), check


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1), st.text(min_size=1), st.binary(min_size=1, max_size=40), st.sampled_from(["256", "512"]))
def test_any_name_and_any_password(user, password, salt, bits):
    user, password = (text.encode("utf-8", "ignore").decode() or "x" for text in (user, password))
    talk = exchange(f"SCRAM-SHA-{bits}", user, password, "fyko+d2lbbFgONRv9qkxdawL")
    opening = next(talk)
    name = opening.decode().removeprefix("n,,n=").partition(",r=")[0]
    assert "," not in name
    assert name.replace("=2C", ",").replace("=3D", "=") == user
    first, check = serve(f"sha{bits}", password, opening, salt, MIN_ITERATIONS)
    with pytest.raises(StopIteration):
        talk.send(check(talk.send(first)))
