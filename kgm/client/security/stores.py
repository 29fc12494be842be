"""Certificates and keys of a Kafka client, as PEM text: from files, inline settings and PKCS12 stores.

The format of a file is detected from its bytes, not from `ssl.*store.type`, whose default (JKS) is often wrong. PKCS12
needs the `pkcs12` extra (`cryptography`). JKS has no maintained library (pyjks: last release 2020), so it is refused,
with the command that converts it. Inline PEM may have lost its line breaks in a properties file."""

import pathlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from kgm.model.distribution import install_command
from kgm.model.errors import NotFoundError, UsageError
from kgm.text.input_files import open_input

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JKS, _JCEKS = bytes.fromhex("feedfeed"), bytes.fromhex("cececece")
_DER_SEQUENCE = 0x30
#: A file larger than this is not a key store.
_MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """The client's certificate chain, and its key (which may be encrypted with `password`)."""

    chain: str
    key: str = field(repr=False)
    password: str | None = field(default=None, repr=False)


def trusted(settings: Mapping[str, str]) -> str | None:
    """The PEM certificates that a broker's certificate chain must lead to; None for the system's.

    Raises UsageError, NotFoundError."""
    for setting in ("ssl.truststore.certificates", "ssl.ca.pem"):
        if settings.get(setting):
            return certificates_of(settings[setting], setting)
    for setting in ("ssl.truststore.location", "ssl.ca.location"):
        where = settings.get(setting)
        if where and where != "probe":
            return _trust_file(setting, where, settings.get("ssl.truststore.password"))
    return None


def _trust_file(setting: str, where: str, password: str | None) -> str:
    path = pathlib.Path(where).expanduser()
    if path.is_dir() and setting == "ssl.ca.location":
        texts = [_read(setting, str(one)) for one in sorted(path.iterdir()) if one.is_file()]
        return certificates_of("\n".join(text.decode("latin-1") for text in texts), f"{setting}: {where}")
    data = _read(setting, where)
    if data[:1] == bytes([_DER_SEQUENCE]):
        chain, _ = _pkcs12(setting, where, data, password)
        return certificates_of(chain, f"{setting}: {where}")
    _refuse_jks(setting, where, data)
    return certificates_of(data.decode("latin-1"), f"{setting}: {where}")


def key_pair(settings: Mapping[str, str]) -> KeyPair | None:
    """The client's certificate and key (mTLS); None if none are set. Raises UsageError, NotFoundError."""
    password = settings.get("ssl.key.password")
    for chain, key in (
        ("ssl.keystore.certificate.chain", "ssl.keystore.key"),
        ("ssl.certificate.pem", "ssl.key.pem"),
        ("ssl.certificate.location", "ssl.key.location"),
    ):
        if settings.get(chain) or settings.get(key):
            return _pair(settings, chain, key, password)
    where = settings.get("ssl.keystore.location")
    if not where:
        return None
    setting = "ssl.keystore.location"
    data = _read(setting, where)
    if data[:1] == bytes([_DER_SEQUENCE]):
        chain, key = _pkcs12(setting, where, data, settings.get("ssl.keystore.password"))
        return KeyPair(chain=certificates_of(chain, f"{setting}: {where}"), key=key_of(key, f"{setting}: {where}"))
    _refuse_jks(setting, where, data)
    text = data.decode("latin-1")
    name = f"{setting}: {where}"
    return KeyPair(chain=certificates_of(text, name), key=key_of(text, name), password=password)


def _pair(settings: Mapping[str, str], chain: str, key: str, password: str | None) -> KeyPair:
    for present, absent in ((chain, key), (key, chain)):
        if not settings.get(absent):
            raise UsageError(f"{present} is set and {absent} is not: a client certificate needs both")
    texts = [settings[chain], settings[key]]
    names = [chain, key]
    if chain.endswith(".location"):
        names = [f"{setting}: {where}" for setting, where in zip((chain, key), texts, strict=True)]
        texts = [_read(setting, settings[setting]).decode("latin-1") for setting in (chain, key)]
    return KeyPair(chain=certificates_of(texts[0], names[0]), key=key_of(texts[1], names[1]), password=password)


def certificates_of(text: str, name: str) -> str:
    """The certificates in a PEM text, in order. Raises UsageError, with `name`, if there are none."""
    certificates = [_block(kind, body) for kind, body in _BLOCK.findall(text) if kind == "CERTIFICATE"]
    if not certificates:
        raise UsageError(f"{name} contains no PEM certificate", hint="it must contain -----BEGIN CERTIFICATE-----")
    return "".join(certificates)


def key_of(text: str, name: str) -> str:
    """The private key in a PEM text. Raises UsageError if there is none."""
    keys = [_block(kind, body) for kind, body in _BLOCK.findall(text) if kind.endswith("PRIVATE KEY")]
    if not keys:
        raise UsageError(f"{name} contains no PEM private key", hint="it must contain -----BEGIN PRIVATE KEY-----")
    return keys[0]


def _block(kind: str, body: str) -> str:
    """One PEM block, with the line lengths that OpenSSL expects; headers of old encrypted keys are preserved."""
    headers = ""
    head, blank, rest = body.replace("\r\n", "\n").strip("\n").partition("\n\n")
    if blank and ":" in head:
        headers, body = head.strip() + "\n\n", rest
    # In a hand-written properties file, line breaks may be the two characters \n, or spaces.
    packed = re.sub(r"\\[nr]|\s", "", body)
    lines = "\n".join(packed[i : i + 64] for i in range(0, len(packed), 64))
    return f"-----BEGIN {kind}-----\n{headers}{lines}\n-----END {kind}-----\n"


def read_text(setting: str, where: str) -> str:
    """A small file named by a setting. Raises NotFoundError or UsageError, which name the setting."""
    try:
        return _read(setting, where).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{setting}: {where} is not a text file") from None


def _read(setting: str, where: str) -> bytes:
    path = pathlib.Path(where).expanduser()
    try:
        with open_input(str(path)) as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"{setting}: {where} does not exist") from None
    except OSError as error:
        raise UsageError(f"{setting}: {where} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{setting}: {where} is too large for a key store")
    return data


def _refuse_jks(setting: str, where: str, data: bytes) -> None:
    if not data.startswith((_JKS, _JCEKS)):
        return
    kind = "JKS" if data.startswith(_JKS) else "JCEKS"
    middle = str(pathlib.PurePath(where).with_suffix(".p12"))
    command = (
        f"keytool -importkeystore -srckeystore {shlex.quote(where)} -srcstoretype {kind} "
        f"-destkeystore {shlex.quote(middle)} -deststoretype PKCS12 && {_openssl(setting, middle)}"
    )
    problem = f"{setting}: {where} is a {kind} store, which kgm does not read"
    raise UsageError(problem, hint=_then(setting, command, where))


def _openssl(setting: str, where: str) -> str:
    target = shlex.quote(str(pathlib.PurePath(where).with_suffix(".pem")))
    return f"openssl pkcs12 -in {shlex.quote(where)} {'-nokeys ' if 'trust' in setting else ''}-out {target}"


def _then(setting: str, command: str, where: str) -> str:
    pem = pathlib.PurePath(where).with_suffix(".pem")
    more = "" if "trust" in setting else ", and ssl.key.password to the PEM pass phrase"
    store = "truststore" if "trust" in setting else "keystore"
    return f"{command}   # then set {setting}={pem} and ssl.{store}.type=PEM{more}"


def _pkcs12(setting: str, where: str, data: bytes, password: str | None) -> tuple[str, str]:
    """(certificates, key) of a PKCS12 store; the client's own certificate comes first."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise UsageError(
            f"{setting}: {where} is a PKCS12 store, which needs the pkcs12 extra: {install_command('pkcs12')}",
            hint=_then(setting, _openssl(setting, where), where),
        ) from None
    try:
        store = load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        name = "ssl.truststore.password" if "trust" in setting else "ssl.keystore.password"
        problem = "is wrong, or the file is damaged" if password else "is not set"
        raise UsageError(f"{setting}: {where} cannot be opened: {name} {problem}") from None
    every = ([store.cert] if store.cert is not None else []) + list(store.additional_certs)
    chain = "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in every)
    if store.key is None:
        return chain, ""
    return chain, store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
