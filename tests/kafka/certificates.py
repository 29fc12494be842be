"""Certificates for one test run: a CA that brokers and clients trust, one that nothing trusts, and the certificates
that they signed."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates

STORE_PASSWORD = "store-s3cret-Canary"
KEY_PASSWORD = "key-s3cret-Canary"


@dataclass(frozen=True)
class Pair:
    """A certificate chain and its key (PKCS8, which is all that Java reads) as PEM texts and files."""

    chain: str
    key: str
    encrypted_key: str
    chain_file: Path
    key_file: Path
    both_file: Path
    encrypted_file: Path
    p12_file: Path


class Certificates:
    """Issues certificates and writes them to one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._ca, self._stranger = trustme.CA(), trustme.CA()
        self.ca = self._ca.cert_pem.bytes().decode()
        self.ca_file = self._file("ca.pem", self.ca)
        self.other_ca_file = self._file("stranger.pem", self._stranger.cert_pem.bytes().decode())
        certificate = load_pem_x509_certificate(self.ca.encode())
        self.ca_p12_file = folder / "trust.p12"
        self.ca_p12_file.write_bytes(
            serialize_java_truststore(
                [PKCS12Certificate(certificate, b"ca")], BestAvailableEncryption(STORE_PASSWORD.encode())
            )
        )
        # For the address only: to TLS, `localhost` is another host.
        self.broker = self.issue("broker", "127.0.0.1")
        self.client = self.issue("client", "client.example", common_name="mtls-user")
        self.stranger = self.issue("stranger-client", "client.example", ca=self._stranger, common_name="mtls-user")

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process of the same run: authorities as PEM texts."""
        authorities = {name: _pem(getattr(self, name)) for name in ("_ca", "_stranger")}
        return {**self.__dict__, **authorities}

    def __setstate__(self, state: dict[str, Any]) -> None:
        authorities = {name: trustme.CA.from_pem(*state[name]) for name in ("_ca", "_stranger")}
        # Two processes may issue certificates with the same name.
        folder = state["folder"] / f"process-{os.getpid()}"
        folder.mkdir(exist_ok=True)
        self.__dict__.update(state, **authorities, folder=folder)

    def issue(
        self, name: str, *identities: str, ca: trustme.CA | None = None, expired: bool = False, **more: str
    ) -> Pair:
        """Issue a certificate for host names or IP addresses."""
        now = dt.datetime.now(dt.UTC)
        dates = {"not_before": now - dt.timedelta(9), "not_after": now - dt.timedelta(2)} if expired else {}
        made = (ca or self._ca).issue_cert(*identities, **more, **dates)
        chain = "".join(blob.bytes().decode() for blob in made.cert_chain_pems)
        key = load_pem_private_key(made.private_key_pem.bytes(), None)

        def pem(encryption: KeySerializationEncryption) -> str:
            return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

        plain, encrypted = pem(NoEncryption()), pem(BestAvailableEncryption(KEY_PASSWORD.encode()))
        certificates = load_pem_x509_certificates(chain.encode())
        p12 = self.folder / f"{name}.p12"
        p12.write_bytes(
            serialize_key_and_certificates(
                name.encode(), key, certificates[0], [*certificates[1:], load_pem_x509_certificate(self.ca.encode())],
                BestAvailableEncryption(STORE_PASSWORD.encode()),
            )
        )  # fmt: skip
        p12.chmod(0o600)
        return Pair(
            chain=chain, key=plain, encrypted_key=encrypted, chain_file=self._file(f"{name}.crt", chain),
            key_file=self._file(f"{name}.key", plain), both_file=self._file(f"{name}.pem", plain + chain),
            encrypted_file=self._file(f"{name}-encrypted.pem", encrypted + chain), p12_file=p12,
        )  # fmt: skip

    def _file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path


def _pem(authority: trustme.CA) -> tuple[bytes, bytes]:
    return authority.cert_pem.bytes(), authority.private_key_pem.bytes()
