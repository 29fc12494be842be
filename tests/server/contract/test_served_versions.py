"""The versions of APIs that `kgm serve --kafka-version` announces, beside the schemas in Kafka's own jars."""

import json
import re
import zipfile

import pytest

from kgm.client import connect
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.model.broker_version import BrokerVersion
from kgm.protocol.apis import API
from kgm.protocol.released_apis import API_VERSIONS
from kgm.server import serve_in_thread
from kgm.server.apis.table import HANDLERS
from kgm.server.contract.served_versions import NOT_SERVED, OF_STREAMS_GROUPS, highest_version

#: Those of streams groups were not compared.
RULES_NOT_KNOWN = ("4.4.0",)


def highest_of_kafka(archive, name):
    """The highest version of an API that is enabled by default; NOT_SERVED if there is none."""
    file = f"common/message/{name}Request.json"
    if file not in archive.namelist():
        return NOT_SERVED
    text = archive.read(file).decode()
    schema = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    highest = int(schema["validVersions"].rpartition("-")[2])
    return highest - bool(schema.get("latestVersionUnstable"))


@pytest.mark.kafka
@pytest.mark.parametrize("version", ["4.0.1", "4.1.1", "4.2.0", "4.3.0", "4.4.0"])
def test_no_later_version_is_served_than_that_kafka_has(version):
    from tests.kafka.jars import jars

    settings = BrokerSettings(kafka_version=BrokerVersion.parse(version))
    unknown = OF_STREAMS_GROUPS if version in RULES_NOT_KNOWN else ()
    with zipfile.ZipFile(jars(f"kafka-{version}") / f"kafka-clients-{version}.jar") as archive:
        kafkas = {key: highest_of_kafka(archive, API[key].name) for key in HANDLERS if key not in unknown}
    assert {key.name: highest_version(key, settings) for key in HANDLERS} == {
        key.name: min(kafkas.get(key, NOT_SERVED), API[key].max_version) for key in HANDLERS
    }


@pytest.mark.parametrize("release", sorted({broker.rpartition(".")[0] for broker in API_VERSIONS if " " not in broker}))
def test_kgm_itself_can_talk_to_every_release_that_is_played(release):
    """It asks for the newest ApiVersions, and is told which one the release has (KIP-511)."""
    settings = BrokerSettings(kafka_version=BrokerVersion.parse(release))
    with serve_in_thread(settings=settings) as server, connect(server.bootstrap, timeout_ms=30_000) as cluster:
        assert list(cluster.list_groups().groups) == []
