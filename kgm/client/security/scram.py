"""The client side of SCRAM (RFC 5802, RFC 7677), as Kafka implements it (KIP-84): no channel binding, no SASLprep.

Kafka's own client (`ScramFormatter.normalize`) uses the UTF-8 bytes of the password unchanged, and so does kgm: with
SASLprep, the two would differ for exactly those passwords that it changes. The server's message is checked before
anything is computed: its nonce must extend the client's (CVE-2024-56128: a broker that did not check it), and its
number of iterations is bounded in both directions (an unbounded count is a denial of service, GHSA-2jcm-hq8r-84wx).

scramp (1.5) was considered. It applies SASLprep, has no tokenauth (KIP-48), and importing it takes longer than
everything else in a login (docs/figures.md)."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Generator

#: The minimum of Kafka's client (ScramMechanism.minIterations).
MIN_ITERATIONS = 4_096
#: About one CPU core-second with SHA-512; Kafka's own tools create credentials with at most 16,384.
MAX_ITERATIONS = 1_000_000
MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9/+]+={0,2}),i=(?P<count>[0-9]{1,12})(?:,.*)?"
)
_FINAL = re.compile(r"(?:v=(?P<proof>[A-Za-z0-9/+]+={0,2})|e=(?P<error>[^,]*))(?:,.*)?")


class ScramError(Exception):
    """The server's message is invalid, or refuses the login. Contains no secret."""


def exchange(
    mechanism: str, username: str, password: str, nonce: str, *, token_auth: bool = False
) -> Generator[bytes, bytes, None]:
    """The client's messages; each `send` takes the server's answer to the previous one. Ends when the server has proved
    that it knows the password too.

    nonce: fresh, printable, without commas. token_auth: the password is that of a delegation token (KIP-48). Raises
    ScramError."""
    bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}" + (",tokenauth=true" if token_auth else "")
    challenge = _text((yield f"n,,{bare}".encode()))
    first = _FIRST.fullmatch(challenge)
    if first is None:
        raise ScramError(
            _refused(challenge[2:]) if challenge.startswith("e=") else "its first message is not valid SCRAM"
        )
    if not first["nonce"].startswith(nonce) or len(first["nonce"]) == len(nonce):
        raise ScramError("its nonce does not extend the client's: this is not a response to this login")
    iterations = int(first["count"])
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ScramError(f"it asks for {iterations} iterations; kgm accepts {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    unproved = f"c=biws,r={first['nonce']}"
    signed = f"{bare},{challenge},{unproved}".encode()
    proof, signature = _keys(MECHANISMS[mechanism], password.encode(), _decoded(first["salt"]), iterations, signed)
    answer = _text((yield f"{unproved},p={base64.b64encode(proof).decode()}".encode()))
    _check_final(answer, signature)


def _keys(name: str, password: bytes, salt: bytes, iterations: int, signed: bytes) -> tuple[bytes, bytes]:
    """(the client's proof, the signature expected from the server), RFC 5802 section 3."""
    salted = hashlib.pbkdf2_hmac(name, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    client_signature = hmac.digest(stored_key, signed, name)
    proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
    return proof, hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)


def _check_final(answer: str, signature: bytes) -> None:
    final = _FINAL.fullmatch(answer)
    if final is None:
        raise ScramError("its final message is not valid SCRAM")
    if final["error"] is not None:
        raise ScramError(_refused(final["error"]))
    if not hmac.compare_digest(_decoded(final["proof"]), signature):
        raise ScramError("its signature is wrong: it does not know the password, so it may not be the broker")


def _refused(why: str) -> str:
    return f"it refuses the login: {why}"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramError("its message contains invalid base64") from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramError("its message is not UTF-8") from None
