"""Apache Ivy, which comes with PySpark, run on the Java runtime of the tests: it fetches jars by their coordinates.

Maven Central by default; KGM_MAVEN_MIRROR names the root of another repository.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
import urllib.request
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import Certificate, load_der_x509_certificate

from tests.kafka.runtime import KafkaUnavailableError, executable

_FETCH_TIMEOUT_S: Final = 900
#: Java requires one; certificates of authorities are not secret.
_STORE_PASSWORD: Final = "public"
#: Ivy's pattern for the paths of fetched jars, with all coordinates in it.
_PATTERN: Final = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One jar by its coordinates; `classifier="test"` asks for a module's test classes. `version` may be a range of Ivy's."""

    group: str
    name: str
    version: str
    classifier: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(*text.split(":"))

    def __str__(self) -> str:
        return ":".join(filter(None, (self.group, self.name, self.version, self.classifier)))

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}{f'-{self.classifier}' if self.classifier else ''}.jar"


def fetch(
    artifacts: Iterable[Artifact], folder: Path, *, transitive: bool = False, kept: Path | None = None
) -> dict[Artifact, Path]:
    """Fetch jars into a folder, which must be empty; with what they depend on where `transitive` is set.

    kept: a folder that caches jars for later calls. KafkaUnavailableError when a jar cannot be fetched.
    """
    wanted = sorted(set(artifacts), key=str)
    settings, module, out = folder / "settings.xml", folder / "ivy.xml", folder / "jars"
    settings.write_text(_settings(kept or folder / "cache", transitive=transitive))
    module.write_text(_module(wanted, transitive=transitive))
    words = ["-settings", settings, "-ivy", module, "-retrieve", f"{out}/{_PATTERN}", "-warn"]
    command = [executable("java"), *_options(folder), "-jar", _jar(), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailableError("jars", f"not fetched within {_FETCH_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise KafkaUnavailableError("jars", f"they cannot be fetched\n{(done.stdout + done.stderr)[-3000:]}")
    return {_artifact(path.relative_to(out)): path for path in out.rglob("*.jar")}


def _artifact(path: Path) -> Artifact:
    group, name, version, file = path.parts
    rest = file.removesuffix(".jar").removeprefix(f"{name}-{version}")
    return Artifact(group, name, version, rest.removeprefix("-") or None)


def _jar() -> Path:
    import pyspark

    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    return jar


def _options(folder: Path) -> list[str]:
    """JVM options with which Java trusts the same authorities as this Python, and uses the same proxy."""
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", f"-Divy.home={folder / 'home'}"]
    context = ssl.create_default_context()
    for variable in ("PIP_CERT", "REQUESTS_CA_BUNDLE"):
        if path := os.environ.get(variable):
            context.load_verify_locations(path)
    if trusted := context.get_ca_certs(binary_form=True):
        store = folder / "trusted.p12"
        certificates = [PKCS12Certificate(one, str(number).encode()) for number, one in enumerate(_readable(trusted))]
        store.write_bytes(serialize_java_truststore(certificates, BestAvailableEncryption(_STORE_PASSWORD.encode())))
        options += [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_STORE_PASSWORD}"]
    if proxy := urllib.request.getproxies().get("https"):
        where = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        options += [f"-Dhttps.proxyHost={where.hostname}", f"-Dhttps.proxyPort={where.port or 80}"]
    return options


def _readable(certificates: list[bytes]) -> Iterator[Certificate]:
    """The certificates that the library can read: some old authorities have serial numbers that are no longer
    allowed."""
    for one in certificates:
        with warnings.catch_warnings(action="error"), contextlib.suppress(ValueError, CryptographyDeprecationWarning):
            yield load_der_x509_certificate(one)


def _settings(cache: Path, *, transitive: bool) -> str:
    mirror = os.environ.get("KGM_MAVEN_MIRROR")
    root = f"root={quoteattr(mirror.rstrip('/') + '/')}" if mirror else ""
    # For pinned jars the digest is checked here, and no POM is needed.
    return (
        f"<ivysettings><settings defaultResolver='central'/><caches defaultCacheDir={quoteattr(str(cache))}/><resolvers>"
        f"<ibiblio name='central' {root} m2compatible='true' usepoms='{str(transitive).lower()}' checksums=''/>"
        "</resolvers></ivysettings>"
    )


def _module(wanted: list[Artifact], *, transitive: bool) -> str:
    """An Ivy module that depends on the wanted jars. Versions that are named win over those that others depend on."""
    classifiers = defaultdict(list)
    for one in wanted:
        classifiers[one.group, one.name, one.version].append(one.classifier)
    lines = []
    for (group, name, version), kinds in classifiers.items():
        # With transitive dependencies, the module's own classes come along too.
        parts = "".join(
            f"<artifact name={quoteattr(name)} type='jar' ext='jar' {f'm:classifier={quoteattr(kind)}' if kind else ''}/>"
            for kind in ([None, *filter(None, kinds)] if transitive else kinds)
        )
        lines.append(
            f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} conf='default->default'"
            f" force='true' transitive='{str(transitive).lower()}'>{parts if any(kinds) else ''}</dependency>"
        )
    return (
        "<ivy-module version='2.0' xmlns:m='http://ant.apache.org/ivy/extra'><info organisation='local' module='jars'/>"
        "<configurations><conf name='default'/></configurations>"
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )
