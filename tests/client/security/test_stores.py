"""Certificates and keys from files, settings and stores."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from kgm.client.security import make_security
from kgm.client.security.stores import certificates_of, key_of, key_pair, trusted
from kgm.model.errors import KgmError, UsageError
from tests.kafka.certificates import KEY_PASSWORD, STORE_PASSWORD
from tests.kafka.runtime import executable
from tests.kafka.secured import CANARY
from tests.needs import needs

pytestmark = pytest.mark.slow  # certificates and handshakes
SSL = {"security.protocol": "SSL"}


def no_secret(error: KgmError):
    assert CANARY not in error.message + repr(error.facts) + (error.hint or "")


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\\n"),
        lambda text: text.replace("\n", " "),
        lambda text: "Bag Attributes\n  friendlyName: x\n" + text + "\ntrailing",
    ],
    ids=["as it is", "CRLF", "backslash n", "blanks", "with attributes"],
)
def test_pem_however_it_came(certificates, mangle):
    assert certificates_of(mangle(certificates.ca), "x") == certificates.ca
    assert key_of(mangle(certificates.client.key), "x") == certificates.client.key
    settings = SSL | {
        "ssl.truststore.certificates": mangle(certificates.ca),
        "ssl.keystore.key": mangle(certificates.client.key),
    }
    security, warnings = make_security(settings | {"ssl.keystore.certificate.chain": mangle(certificates.client.chain)})
    assert (security.name, warnings) == ("SSL", ())


def test_where_trust_comes_from(certificates, tmp_path):
    for settings in (
        {"ssl.truststore.certificates": certificates.ca},
        {"ssl.ca.pem": certificates.ca},
        {"ssl.truststore.location": str(certificates.ca_file), "ssl.truststore.type": "PEM"},
        {"ssl.ca.location": str(certificates.ca_file)},
        {"ssl.truststore.location": str(certificates.ca_p12_file), "ssl.truststore.password": STORE_PASSWORD},
    ):
        assert trusted(settings) == certificates.ca
    (tmp_path / "a.pem").write_text(certificates.ca)
    (tmp_path / "b.pem").write_text(certificates.other_ca_file.read_text())
    assert trusted({"ssl.ca.location": str(tmp_path)}) == certificates.ca + certificates.other_ca_file.read_text()
    assert trusted({}) is None
    assert trusted({"ssl.ca.location": "probe"}) is None


def test_where_our_certificate_comes_from(certificates):
    client = certificates.client
    for settings in (
        {"ssl.keystore.certificate.chain": client.chain, "ssl.keystore.key": client.key},
        {"ssl.certificate.pem": client.chain, "ssl.key.pem": client.key},
        {"ssl.certificate.location": str(client.chain_file), "ssl.key.location": str(client.key_file)},
        {"ssl.keystore.location": str(client.both_file)},
        {"ssl.keystore.location": str(client.p12_file), "ssl.keystore.password": STORE_PASSWORD},
    ):
        pair = key_pair(settings)
        assert pair is not None
        assert pair.key == client.key
        assert pair.chain.startswith(client.chain)
        assert client.key.splitlines()[1] not in repr(pair)
        make_security(SSL | settings)
    assert key_pair({}) is None


@pytest.mark.parametrize("source", ["file", "inline"])
def test_encrypted_keys(certificates, source):
    client = certificates.client
    settings = SSL | (
        {"ssl.keystore.location": str(client.encrypted_file)} if source == "file"
        else {"ssl.keystore.certificate.chain": client.chain, "ssl.keystore.key": client.encrypted_key}
    )  # fmt: skip
    make_security(settings | {"ssl.key.password": KEY_PASSWORD})
    with pytest.raises(UsageError, match=r"ssl.key.password is wrong") as caught:
        make_security(settings | {"ssl.key.password": f"{CANARY}-not"})
    no_secret(caught.value)
    with pytest.raises(UsageError, match="is not set, and the key is encrypted"):
        make_security(settings)


def test_files_that_are_something_else(certificates, tmp_path):
    client = certificates.client
    with pytest.raises(UsageError, match="do not match"):
        make_security(SSL | {"ssl.keystore.certificate.chain": certificates.ca, "ssl.keystore.key": client.key})
    with pytest.raises(UsageError, match="contains no PEM private key"):
        make_security(SSL | {"ssl.keystore.location": str(client.chain_file)})
    with pytest.raises(UsageError, match="cannot be read"):
        make_security(SSL | {"ssl.truststore.location": str(tmp_path)})
    broken = certificates.ca.splitlines()[0] + "\nAAAA\n-----END CERTIFICATE-----\n"
    with pytest.raises(UsageError, match="cannot be read"):
        make_security(SSL | {"ssl.truststore.certificates": broken})
    key = client.key.splitlines()[0] + "\nAAAA\n-----END PRIVATE KEY-----\n"
    with pytest.raises(UsageError, match="cannot be read"):
        make_security(SSL | {"ssl.keystore.certificate.chain": client.chain, "ssl.keystore.key": key})


def test_pkcs12_with_a_wrong_password(certificates):
    for password, says in ((f"{CANARY}-not", "is wrong"), (None, "is not set")):
        for setting, path in (("truststore", certificates.ca_p12_file), ("keystore", certificates.client.p12_file)):
            settings = SSL | {f"ssl.{setting}.location": str(path)}
            if password:
                settings[f"ssl.{setting}.password"] = password
            with pytest.raises(UsageError, match=f"ssl.{setting}.password {says}") as caught:
                make_security(settings)
            no_secret(caught.value)


def program(name: str) -> str:
    """A program of a hint; keytool is the runtime's."""
    return executable(name) if name == "keytool" else needs(name)


def run_hint(hint: str, extra: dict[str, list[str]]) -> dict[str, str]:
    """Run the commands of a hint, with passwords as arguments, and read the settings that it names."""
    commands, _, then = hint.partition("   # then set ")
    for command in commands.split(" && "):
        words = shlex.split(command)
        subprocess.run([program(words[0]), *words[1:], *extra[words[0]]], check=True, capture_output=True)
    found = dict(re.findall(r"(ssl\.\S+)=(\S+?)(?=,? |,|$)", then))
    assert all(value.endswith(".pem") or value == "PEM" for value in found.values())
    return found


@pytest.mark.parametrize("kind", ["truststore", "keystore"])
def test_without_the_extra_pkcs12_is_refused_with_the_command_that_converts_it(
    certificates, tmp_path, monkeypatch, kind
):
    source = certificates.ca_p12_file if kind == "truststore" else certificates.client.p12_file
    path = tmp_path / "a store.p12"
    path.write_bytes(source.read_bytes())
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(UsageError, match=r"kafka-kgm\[pkcs12\]") as caught:
        make_security(SSL | {f"ssl.{kind}.location": str(path)})
    passwords = [
        "-passin",
        f"pass:{STORE_PASSWORD}",
        *(["-passout", f"pass:{KEY_PASSWORD}"] if kind == "keystore" else []),
    ]
    hint = caught.value.hint.replace(str(tmp_path / "a store.pem"), str(tmp_path / "store.pem"))
    settings = run_hint(hint, {"openssl": passwords})
    make_security(SSL | settings | {"ssl.key.password": KEY_PASSWORD})


@pytest.mark.long
@pytest.mark.kafka
def test_jks_is_refused_with_the_command_that_converts_it(certificates, tmp_path):
    source = certificates.client.p12_file
    path = tmp_path / "store.jks"
    both = ["-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD, "-noprompt"]
    command = [executable("keytool"), "-importkeystore", "-srckeystore", str(source), "-destkeystore", str(path)]
    subprocess.run([*command, "-deststoretype", "JKS", *both], check=True, capture_output=True)
    with pytest.raises(UsageError, match="is a JKS store, which kgm does not read") as caught:
        make_security(SSL | {"ssl.keystore.location": str(path), "ssl.keystore.password": STORE_PASSWORD})
    no_secret(caught.value)
    passwords = ["-passin", f"pass:{STORE_PASSWORD}", "-passout", f"pass:{KEY_PASSWORD}"]
    settings = run_hint(caught.value.hint, {"keytool": both, "openssl": passwords})
    make_security(SSL | settings | {"ssl.key.password": KEY_PASSWORD})
