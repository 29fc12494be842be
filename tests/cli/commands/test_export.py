"""`kgm export`: on stdout, as a file, over HTTP, and read by a real Prometheus."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import threading
import urllib.request
import uuid
from contextlib import contextmanager

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests import ROOT
from tests.cli.environment import bare
from tests.cli.forked import forked_command
from tests.cli.runner import kgm
from tests.client.faults import BlackHole, FaultProxy, Pass
from tests.kafka.broker import free_ports
from tests.kafka.members import RdMembers, wait_settled
from tests.needs import needs
from tests.waiting import until

pytestmark = pytest.mark.shows("export")

TOPIC, PARTITIONS = "metrics", 4
MONITORING = ROOT / "docs" / "monitoring"


@pytest.fixture(scope="module")
def group(kafka):
    """A group with one static member, which commits."""
    kafka.create_topics({TOPIC: PARTITIONS})
    name = f"metrics-{uuid.uuid4().hex[:8]}"
    with RdMembers(kafka.bootstrap) as members:
        member = members.start(group=name, topics=[TOPIC], protocol="classic", instance_id="one")
        wait_settled([member], PARTITIONS)
        yield name


@contextmanager
def exporting(*arguments):
    """The process, and the first line that it prints."""
    child = subprocess.Popen([*forked_command(), "export", *arguments], stdout=subprocess.PIPE, text=True, env=bare())
    try:
        yield child, json.loads(child.stdout.readline())
    finally:
        child.kill()
        child.wait(30)
        child.stdout.close()


def read(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        return answer.read().decode()


@pytest.mark.kafka
def test_once(kafka, group):
    run = kgm("export", group, "-b", kafka.bootstrap)
    assert (run.code, run.err) == (0, "")
    rows = {row.name: row for family in text_string_to_metric_families(run.out) for row in family.samples}
    assert rows["kgm_group_state"].labels == {"group": group, "state": "Stable"}
    assert rows["kgm_group_generation"].value == 1
    assert rows["kgm_group_static_members"].value == 1
    assert run.out.endswith("# EOF\n")
    document = json.loads(kgm("export", group, "-b", kafka.bootstrap, "-o", "json").out)["data"]
    values = {one["name"]: one["value"] for family in document["families"] for one in family["samples"]}
    assert values["kgm_group_generation"] == 1
    assert kgm("export", group, "-b", kafka.bootstrap, "-o", "name").out == f"{group}\n"


@pytest.mark.kafka
def test_what_is_missing(kafka, group):
    assert kgm("export", "metrics-nobody", "-b", kafka.bootstrap).code == 3
    some = kgm("export", group, "metrics-nobody", "-b", kafka.bootstrap)
    assert some.code == 7
    assert "kgm_group_state" in some.out
    assert kgm("export", "--match", "no-such-*", "-b", kafka.bootstrap).code == 3


@pytest.mark.kafka
def test_over_http_until_sigterm(kafka, group):
    arguments = [group, "-b", kafka.bootstrap, "--listen", "127.0.0.1:0", "--interval", "1s"]
    with exporting(*arguments) as (child, line):
        first = read(line["listening"])
        assert f'kgm_group_static_members{{group="{group}"}} 1.0' in first
        assert read(line["listening"]) == first or "kgm_up 1.0" in first
        until(lambda: stamp(read(line["listening"])) > stamp(first), "no second collection")
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0


@pytest.mark.parametrize(
    ("number", "code", "is_file", "collections"),
    [
        (signal.SIGTERM, 0, False, 1), (signal.SIGINT, 130, False, 1), (signal.SIGHUP, 129, False, 1),
        (signal.SIGTERM, 0, False, 0), (signal.SIGTERM, 0, True, 1),
    ],
)  # fmt: skip
def test_a_signal_ends_it_at_once_while_a_broker_hangs(tmp_path, number, code, is_file, collections):
    """Not when the collection under way has used up --timeout: supervisors kill what takes that long. collections: how
    many succeed before."""
    hangs = threading.Event()
    where = ["--textfile", str(tmp_path / "kgm.prom")] if is_file else ["--listen", "127.0.0.1:0"]
    with serve_in_thread(topics={}) as server, FaultProxy(("127.0.0.1", server.port)) as proxy:
        proxy.script(ApiKey.LIST_GROUPS, *[Pass()] * collections)
        proxy.always(ApiKey.LIST_GROUPS, BlackHole(then=hangs.set))
        child = subprocess.Popen(
            [*forked_command(), "export", "-b", proxy.bootstrap, *where, "--interval", "1s", "--timeout", "1h"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=bare(),
        )  # fmt: skip
        try:
            assert hangs.wait(60)
            child.send_signal(number)
            out, err = child.communicate(timeout=30)
        finally:
            child.kill()
            child.wait(30)
    assert (child.returncode, err) == (code, "")
    assert bool(out) == (not is_file and collections > 0)
    assert [path.name for path in tmp_path.iterdir()] == ["kgm.prom"] * (is_file and collections)


def stamp(text):
    return float(
        next(row.split()[1] for row in text.splitlines() if row.startswith("kgm_collection_timestamp_seconds "))
    )


@pytest.mark.kafka
def test_a_file_is_whole_and_readable_for_others(kafka, group, tmp_path):
    path = tmp_path / "kgm.prom"
    path.write_text("old")
    run = kgm("export", group, "-b", kafka.bootstrap, "--textfile", str(path))
    assert (run.code, run.out, run.err) == (0, "", "")
    assert f'kgm_group_static_members{{group="{group}"}} 1.0' in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["kgm.prom"]
    checked = subprocess.run(
        [needs("promtool"), "check", "metrics"], input=path.read_text(), capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.kafka
def test_a_file_for_a_cluster_that_went_away_says_so(tmp_path):
    path = tmp_path / "kgm.prom"
    path.write_text("kgm_up 1.0\n")
    run = kgm("export", "-b", f"127.0.0.1:{free_ports(1)[0]}", "--timeout", "1s", "--textfile", str(path))
    assert run.code == 5
    assert "\nkgm_up 0.0\n" in path.read_text()
    assert "{group=" not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--interval", "5s"], "--interval needs --listen or --textfile"),
        (["--listen", "127.0.0.1:0", "--interval", "10ms"], "is shorter than 1s"),
        (["--listen", "127.0.0.1:0", "--textfile", "x.prom"], "exclude each other"),
        (["--listen", "127.0.0.1:0", "-o", "json"], "-o cannot be combined"),
        (["--listen", "127.0.0.1"], "is not HOST:PORT"),
        (["--max-series", "1"], "--max-series"),
        (["--findings-every", "soon"], "--findings-every"),
    ],
)
def test_what_does_not_go_together(arguments, why):
    run = kgm("export", "-b", "127.0.0.1:1", *arguments)
    assert run.code == 2
    assert why in run.err


@pytest.mark.parametrize(("name", "why"), [("kgm.txt", "end with .prom"), ("none/kgm.prom", "cannot be written")])
@pytest.mark.kafka
def test_a_file_that_cannot_be_written(kafka, group, tmp_path, name, why):
    run = kgm("export", group, "-b", kafka.bootstrap, "--textfile", str(tmp_path / name))
    assert run.code == 2
    assert why in run.err


@pytest.mark.kafka
@pytest.mark.slow
def test_a_real_prometheus_scrapes_it(kafka, group, tmp_path):
    prometheus, port = needs("prometheus"), free_ports(1)[0]
    with exporting(group, "-b", kafka.bootstrap, "--listen", "127.0.0.1:0") as (_, line):
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "kgm", "static_configs": [{"targets": [line["listening"]]}]}],
            "rule_files": [str(MONITORING / "alerts.yml")],
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        log = (tmp_path / "log").open("w")
        child = subprocess.Popen(
            [prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            query = f"http://127.0.0.1:{port}/api/v1/query?query=kgm_group_static_members"
            (row,) = until(lambda: _result(query), lambda: (tmp_path / "log").read_text()[-2000:])
            assert (row["metric"]["group"], row["value"][1]) == (group, "1")
        finally:
            child.terminate()
            child.wait(60)
            log.close()


def _result(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return []


def test_the_alerts_alert():
    tool = needs("promtool")
    done = subprocess.run(
        [tool, "test", "rules", "alerts_test.yml"], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_and_dashboard_use_metrics_that_there_are():
    named = {
        name
        for path in (MONITORING / "alerts.yml", MONITORING / "dashboard.json", MONITORING / "README.md")
        for name in re.findall(r"\bkgm_[a-z_]+", path.read_text())
    }
    export = ROOT / "kgm" / "operations" / "export"
    source = (export / "families.py").read_text() + (export / "series.py").read_text()
    known = set(re.findall(r"kgm_[a-z_]+", source))
    known |= {f"{name}_total" for name in known}
    assert named
    assert named <= known
    document = json.loads((MONITORING / "dashboard.json").read_text())
    assert all(panel["targets"] for panel in document["panels"])
