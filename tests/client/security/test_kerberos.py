"""Kerberos: a real KDC, a real Kafka with a GSSAPI listener, and kgm with a ticket or a keytab.

The library is built once, into kgm's cache."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest

from kgm.client.security.kerberos import KerberosLogin
from kgm.model.errors import UsageError
from tests import KGM, ROOT
from tests.kafka.broker import KafkaCluster, free_ports
from tests.kafka.jars import cache_dir, locked
from tests.kafka.java_tools import QUICK
from tests.kafka.process import Child
from tests.needs import needs
from tests.waiting import until

#: The library's build has a limit of its own.
pytestmark = [pytest.mark.shows("Kerberos"), pytest.mark.timeout(180, func_only=True)]
BUILD_S = 600
REALM = "KGM.TEST"
SERVICE = "kafka/127.0.0.1"
TOOLS = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit", "krb5-config")
KDC_CONF = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  max_life = 1h
 }}
"""
KRB5_CONF = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""


@pytest.fixture(scope="module")
def library():
    """A directory with the Python library, for PYTHONPATH."""
    for tool in TOOLS:
        needs(tool)
    folder = cache_dir() / f"gssapi-{sys.version_info.major}.{sys.version_info.minor}"
    with locked(folder.name):
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "gssapi>=1.8,<2"]
            # There are no wheels of it, and to optimise is more than half of the build.
            subprocess.run(install, check=True, timeout=BUILD_S, env={**os.environ, "CFLAGS": "-O0 -g0"})
            (folder / ".complete").touch()
    return folder


class Realm:
    """A KDC with a broker, an operator and a stranger whom the broker does not know."""

    def __init__(self, folder):
        self.folder = folder
        (self.port,) = free_ports(1)
        for name, text in (("kdc.conf", KDC_CONF), ("krb5.conf", KRB5_CONF)):
            (folder / name).write_text(text.format(port=self.port, realm=REALM, folder=folder))
        self.environment = {
            "PATH": f"{os.environ['PATH']}:/usr/sbin", "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"), "KRB5CCNAME": f"FILE:{folder}/tickets", "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        self.run(needs("kdb5_util"), "create", "-s", "-r", REALM, "-P", "master")
        for name in (SERVICE, "operator", "night"):
            self.run(needs("kadmin.local"), "-r", REALM, "-q", f"addprinc -randkey {name}")
            self.run(needs("kadmin.local"), "-r", REALM, "-q", f"ktadd -k {self.keytab(name)} {name}")
        command = [
            needs("env"),
            *(f"{key}={value}" for key, value in self.environment.items()),
            needs("krb5kdc"),
            "-n",
            "-r",
            REALM,
        ]
        self._child = Child(command, log=folder / "kdc.log")
        until(self._answers, "the KDC does not answer", every_s=0.05)

    def _answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def keytab(self, name):
        return self.folder / f"{name.split('/')[0]}.keytab"

    def run(self, *command):
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=60)

    def stop(self):
        self._child.kill()


@pytest.fixture(scope="module")
def realm(library, tmp_path_factory):
    realm = Realm(tmp_path_factory.mktemp("kdc"))
    yield realm
    realm.stop()


@pytest.fixture(scope="module")
def kafka(realm):
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{realm.keytab(SERVICE)}" principal="{SERVICE}@{REALM}";'
    )
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI", "listener.name.kerberos.gssapi.sasl.jaas.config": jaas,
        "sasl.kerberos.service.name": "kafka", "connection.failed.authentication.delay.ms": "0",
        "listener.name.kerberos.connections.max.reauth.ms": "2000",
    }  # fmt: skip
    options = [*QUICK, f"-Djava.security.krb5.conf={realm.folder}/krb5.conf"]
    with KafkaCluster(1, properties, listeners={"KERBEROS": "SASL_PLAINTEXT"}, jvm_options=options) as cluster:
        yield cluster


def kgm(realm, library, kafka, *words, jaas=None, service="kafka", mechanism="GSSAPI"):
    """Run kgm as the operator of the realm."""
    lines = [f"bootstrap.servers={kafka.bootstrap_of('KERBEROS')}", "security.protocol=SASL_PLAINTEXT"]
    lines += [f"{key}={value}" for key, value in (
        ("sasl.mechanism", mechanism), ("sasl.kerberos.service.name", service), ("sasl.jaas.config", jaas),
    ) if value is not None]  # fmt: skip
    path = realm.folder / "client.properties"
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    environment = {**realm.environment, "PYTHONPATH": os.pathsep.join([str(library), str(ROOT)])}
    return subprocess.run(
        [*KGM, *words, "--command-config", str(path)], env=environment, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["GSSAPI", None], ids=["named", "kafka's default"])
def test_with_a_keytab(realm, library, kafka, mechanism):
    login = (
        f'a.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="{realm.keytab("night")}" principal="night";'
    )
    done = kgm(realm, library, kafka, "config", "test", "-o", "json", jaas=login, mechanism=mechanism)
    assert done.returncode == 0, done
    logins = [check for check in json.loads(done.stdout)["data"]["checks"] if check["step"] == "sasl"]
    assert logins
    assert all((check["result"], "GSSAPI" in check["detail"]) == ("ok", True) for check in logins), logins


@pytest.mark.kafka
@pytest.mark.slow
def test_with_the_operator_s_ticket_for_longer_than_a_session(realm, library, kafka):
    realm.run("kinit", "-k", "-t", str(realm.keytab("operator")), "operator")
    done = kgm(realm, library, kafka, "list")
    assert (done.returncode, done.stderr) == (0, ""), done
    # The broker wants a new login every 2 s.
    done = kgm(realm, library, kafka, "watch", "nobody", "--interval", "500ms", "--for", "5s")
    assert "unreachable" not in done.stdout + done.stderr, done


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    ("jaas", "service", "says"),
    [
        ('a.Krb5LoginModule required useTicketCache=true ticketCache="{folder}/none";', "kafka", "the Kerberos login of"),
        (None, "strange", "to strange/127.0.0.1 failed"),
        ('a.Krb5LoginModule required useKeyTab=true keyTab="{folder}/night.keytab" principal="day";', "kafka", "'day'"),
    ],
    ids=["no ticket", "another service", "not in the keytab"],
)  # fmt: skip
def test_what_fails_is_named(realm, library, kafka, jaas, service, says):
    realm.run("kinit", "-k", "-t", str(realm.keytab("operator")), "operator")
    login = None if jaas is None else jaas.format(folder=realm.folder)
    done = kgm(realm, library, kafka, "list", jaas=login, service=service)
    assert done.returncode == 4, done
    assert says in done.stderr
    assert "kinit" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "no service name is set"),
        ({"sasl.kerberos.service.name": "a", "sasl.jaas.config": "x"}, "two service names are set"),
    ],
)
def test_a_service_name_is_needed(settings, says):
    from kgm.client.security.jaas import parse_jaas

    jaas = parse_jaas('a.Krb5LoginModule required serviceName="b";') if "sasl.jaas.config" in settings else None
    with pytest.raises(UsageError, match=says):
        KerberosLogin(settings, jaas)


def test_without_the_library():
    code = (
        "import sys; sys.modules['gssapi'] = None\n"
        "from kgm.client.security import make_security\n"
        "make_security({'security.protocol': 'SASL_SSL', 'sasl.kerberos.service.name': 'kafka'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "Kafka's default is GSSAPI (Kerberos)" in done.stderr
