"""Commands that follow a cluster, when another one answers at its address: a group of the same name there is another
group. Nothing that it shows is taken for what became of the first, and each command says so."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest

from kgm.cli.options.run_options import RunOptions
from kgm.client.failures import OtherClusterError
from kgm.client.poller import GroupPoller
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.operations.export.collector import ExportRequest, GroupCollector
from kgm.operations.export.families import openmetrics_text
from kgm.operations.groups.description import DescriptionRequest, describe
from kgm.operations.groups.partitions import PartitionOrder
from kgm.operations.top.fleet import Fleet, FleetRequest
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests.cli.environment import bare
from tests.cli.forked import forked_command
from tests.cli.runner import kgm
from tests.client.faults import FaultProxy
from tests.client.joiners import form_group
from tests.waiting import until

pytestmark = pytest.mark.slow

TOPIC, GROUP = "orders", "xg"
REFUSED = 6


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """Two clusters, each with an id of its own and a group of the same name and the same static members."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    folders = [tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")]
    with (
        serve_in_thread(topics={TOPIC: 6}, settings=settings, data_dir=folders[0]) as first,
        serve_in_thread(topics={TOPIC: 6}, settings=settings, data_dir=folders[1]) as second,
    ):
        both = first, second
        joiners = [one for server in both for one in form_group(server, GROUP, ["x-1", "x-2"], TOPIC)]
        yield both
        for one in joiners:
            one.close()


@pytest.fixture
def address(clusters):
    """An address that leads to the first cluster, until `switch` makes it lead to the second."""
    first, second = clusters
    with FaultProxy((first.host, first.port)) as proxy:

        def switch():
            proxy.backend = (second.host, second.port)
            proxy.cut()

        proxy.switch = switch
        yield proxy


def connected(address):
    return RunOptions(bootstrap=address.bootstrap, timeout_ms=10_000).cluster(reads_only=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch", GROUP, "--until", "bounced", "--settle", "1s", "--expect-no-moves", "--max-rebalances", "0"],
        ["watch", GROUP, "--timeout", "60s"],
        ["wait", GROUP, "--for", "members=3", "--timeout", "60s"],
        ["wait", GROUP, "--for", "stable", "--settle", "30s", "--timeout", "60s"],
    ],
    ids=" ".join,
)
def test_it_ends_with_the_code_of_a_refusal(address, clusters, arguments):
    command = [*forked_command(), *arguments, "-b", address.bootstrap, "--interval", "100ms"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=bare(), start_new_session=True
    ) as process:
        try:
            until(lambda: len(address.requests(ApiKey.DESCRIBE_GROUPS)) >= 3, "kgm does not poll", 30)
            address.switch()
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == REFUSED, out + err
    assert "  replaced  " not in out
    assert "another cluster answers at" in err
    assert all(server._server.cluster.cluster_id in err for server in clusters)


def test_polls_do_not_show_it(address):
    with connected(address) as cluster:
        poller = GroupPoller(cluster, [GROUP], budget_ms=5000)
        assert poller.poll()[GROUP].seen.state == "Stable"
        address.switch()
        for _ in range(2):
            assert isinstance(poller.poll()[GROUP].seen, OtherClusterError)


def test_the_screen_of_all_groups_keeps_what_it_has_and_says_why(address):
    with connected(address) as cluster:
        fleet = Fleet(cluster, FleetRequest(pattern=None, round_ms=1000))
        fleet.read_all()
        before = fleet.rows
        assert [*before] == [GROUP]
        address.switch()
        for _ in range(2):
            with pytest.raises(OtherClusterError):
                fleet.read_round(budget_ms=5000)
        assert fleet.rows == before


def test_a_single_frame_is_refused(address):
    with connected(address) as cluster:
        address.switch()
        with pytest.raises(OtherClusterError) as caught:
            Fleet(cluster, FleetRequest(pattern=None, round_ms=1000)).read_all()
    assert caught.value.exit_code == REFUSED


@pytest.mark.parametrize("names", [[], [GROUP]], ids=["all groups", "a named group"])
def test_an_exporter_is_not_up_and_has_no_series_until_the_cluster_is_back(address, clusters, names):
    with connected(address) as cluster:
        collector = GroupCollector(cluster=cluster, request=ExportRequest(names=names))
        assert collector.collect().series.group_ids == [GROUP]
        address.switch()
        lost = collector.collect()
        text = b"".join(openmetrics_text(lost)).decode()
        assert "kgm_up 0.0" in text
        assert 'kgm_collection_errors{code="OTHER_CLUSTER"} 1.0' in text
        assert f'"{GROUP}"' not in text
        address.backend = (clusters[0].host, clusters[0].port)
        address.cut()
        back = collector.collect()
    assert (back.is_up, back.series.group_ids, back.errors) == (True, [GROUP], ())


def test_a_trend_is_not_made_of_two_clusters(address, monkeypatch):
    with connected(address) as cluster:
        switching = threading.Timer(1.0, address.switch)
        switching.start()
        with pytest.raises(OtherClusterError):
            [*describe(cluster, DescriptionRequest(names=[GROUP], trend_ms=3000), PartitionOrder.NAME).groups]
        switching.join()


def saved(server, path, **more):
    """A snapshot as `describe` prints it. more: keys that replace those of the envelope."""
    run = kgm("describe", GROUP, "-b", server.bootstrap, "-o", "json")
    path.write_text(json.dumps(json.loads(run.out) | more))
    return str(path)


RECORDED = [
    ("diff", "{file}", "live"), ("diff", "live", "{file}"), ("diff", "{file}", "live:absent"),
    ("watch", GROUP, "--count", "1", "--baseline", "{file}"), ("watch", "--match", "x*", "--count", "1", "--baseline", "{file}"),
]  # fmt: skip


@pytest.mark.parametrize("words", RECORDED, ids=" ".join)
def test_a_snapshot_is_not_compared_with_another_cluster(clusters, tmp_path, words):
    first, second = clusters
    path = saved(first, tmp_path / "first.json")
    run = kgm(*(word.format(file=path) for word in words), "-b", second.bootstrap, "-o", "json")
    assert (run.code, json.loads(run.out)["data"]) == (REFUSED, {})
    ids = [server._server.cluster.cluster_id for server in clusters]
    assert f"file {path} is about cluster {ids[0]}, and this is {ids[1]}" in run.err


@pytest.mark.parametrize("cluster", [None, {"id": None, "bootstrap": "b:9092"}, {"id": ""}, {"id": 7}, "text"], ids=str)
@pytest.mark.parametrize("words", [RECORDED[0], RECORDED[4]], ids=" ".join)
def test_a_snapshot_that_names_no_cluster_is_taken_as_it_is(clusters, tmp_path, words, cluster):
    first, second = clusters
    path = saved(first, tmp_path / "first.json", cluster=cluster)
    run = kgm(*(word.format(file=path) for word in words), "-b", second.bootstrap)
    assert run.code == 0, run.err


def test_a_baseline_of_a_pattern_can_be_stdin(clusters):
    server = clusters[0]
    text = kgm("describe", GROUP, "-b", server.bootstrap, "-o", "json").out
    run = kgm("watch", "--match", "x*", "--count", "1", "--baseline", "-", "-b", server.bootstrap, stdin=text)
    assert run.code == 0, run.err


@pytest.mark.parametrize("output", ["table", "json"])
def test_files_of_two_clusters_are_compared_with_a_warning(clusters, tmp_path, output):
    first, second = (saved(server, tmp_path / f"{n}.json") for n, server in enumerate(clusters))
    run = kgm("diff", first, second, "-o", output)
    ids = [server._server.cluster.cluster_id for server in clusters]
    assert run.code == 0
    (warning,) = run.err.splitlines()
    assert f"A is about cluster {ids[0]}, and B about cluster {ids[1]}" in warning
    if output == "json":
        assert json.loads(run.out)["warnings"] == [warning.removeprefix("warning: ")]
    for other in (first, saved(clusters[1], tmp_path / "nameless.json", cluster=None)):
        assert kgm("diff", first, other, "-o", output).err == ""
