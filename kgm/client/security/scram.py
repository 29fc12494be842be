"""SCRAM, the client's half (RFC 5802, RFC 7677), as Kafka speaks it (KIP-84): no channel binding, no SASLprep.

Kafka's own client (`ScramFormatter.normalize`) takes the UTF-8 bytes of the password as they are, and so do we: with
SASLprep the two would disagree on just those passwords for which it matters. What a server sends is judged before
anything is computed: its nonce must go on from ours (CVE-2024-56128 was a broker that did not look), and its number of
iterations is bounded on both sides (a count without bound is a denial of service, GHSA-2jcm-hq8r-84wx)."""

import base64
import binascii
import re
from collections.abc import Generator

#: Kafka's client takes no fewer (ScramMechanism.minIterations).
MIN_ITERATIONS = 4_096
#: About a second of one core with SHA-512; Kafka's own tools create credentials with at most 16,384.
MAX_ITERATIONS = 1_000_000
MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9/+]+={0,2}),i=(?P<count>[0-9]{1,12})(?:,.*)?"
)
_FINAL = re.compile(r"(?:v=(?P<proof>[A-Za-z0-9/+]+={0,2})|e=(?P<error>[^,]*))(?:,.*)?")


class ScramError(Exception):
    """The server's message is not one that an honest server sends, or it refuses us. Holds no secret."""


def exchange(
    mechanism: str, username: str, password: str, nonce: str, *, token_auth: bool = False
) -> Generator[bytes, bytes, None]:
    """The client's messages; each `send` takes the server's answer to the one before. Ends when the server has proved
    that it knows the password too.

    nonce: fresh, printable, without commas. token_auth: the password is a delegation token's (KIP-48).
    Raises ScramError."""
    bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}" + (",tokenauth=true" if token_auth else "")
    challenge = _text((yield f"n,,{bare}".encode()))
    found = _FIRST.fullmatch(challenge)
    if found is None:
        raise ScramError(_refused(challenge[2:]) if challenge.startswith("e=") else "its first message is not SCRAM")
    if not found["nonce"].startswith(nonce) or len(found["nonce"]) == len(nonce):
        raise ScramError("its nonce does not go on from ours: this is not an answer to our login")
    iterations = int(found["count"])
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ScramError(f"it asks for {iterations} iterations; kgm takes {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    unproved = f"c=biws,r={found['nonce']}"
    signed = f"{bare},{challenge},{unproved}".encode()
    proof, signature = _keys(MECHANISMS[mechanism], password.encode(), _decoded(found["salt"]), iterations, signed)
    answer = _text((yield f"{unproved},p={base64.b64encode(proof).decode()}".encode()))
    _check_final(answer, signature)


def _keys(name: str, password: bytes, salt: bytes, iterations: int, signed: bytes) -> tuple[bytes, bytes]:
    """(our proof, the signature that the server must show), RFC 5802 section 3."""
    import hashlib
    import hmac

    salted = hashlib.pbkdf2_hmac(name, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    client_signature = hmac.digest(stored_key, signed, name)
    proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
    return proof, hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)


def _check_final(answer: str, signature: bytes) -> None:
    import hmac

    found = _FINAL.fullmatch(answer)
    if found is None:
        raise ScramError("its last message is not SCRAM")
    if found["error"] is not None:
        raise ScramError(_refused(found["error"]))
    if not hmac.compare_digest(_decoded(found["proof"]), signature):
        raise ScramError("its signature is wrong: it does not know the password, so it is not the broker it says it is")


def _refused(why: str) -> str:
    return f"it refuses the login: {why}"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramError("its message holds what is no base64") from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramError("its message is not UTF-8") from None
