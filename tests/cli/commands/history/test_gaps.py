"""Every answer about a group of which compaction has removed records says so."""

import json

import pyarrow.parquet as pq
import pytest

from kgm.cli.main import run
from kgm.history.derive import derive
from kgm.operations.history.explanation import explain_group
from kgm.operations.history.source import HistorySource
from kgm.pipeline.options import SourceKind
from tests.history.store.stores import write_store
from tests.history.truth.consumer_lives import ConsumerWorld
from tests.history.truth.lives import GROUP, World
from tests.operations.history.test_gaps import compacted, opened, whole
from tests.records.real_logs import DATA

_SAYS = "compaction has removed earlier records"
_LIVE = HistorySource(path=DATA, kind=SourceKind.KAFKA, connection="-b 127.0.0.1:1")


@pytest.fixture(params=[World, ConsumerWorld], ids=["classic", "consumer"])
def log(request):
    return whole(request.param)


@pytest.fixture(params=["records", "store"])
def where(request, log, tmp_path):
    """The options for a compacted log, as files of records and as a built store (with or without Spark: its tables)."""
    raw = compacted(log)
    if request.param == "store":
        return ["--store", str(write_store(tmp_path / "store", derive(raw).tables, partitions=[0]))]
    (tmp_path / "raw").mkdir()
    pq.write_table(raw, tmp_path / "raw" / "part.parquet")
    return ["--source", f"parquet:{tmp_path / 'raw'}"]


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "words",
    [
        ["rebalances"], ["rebalances", GROUP], ["explain", GROUP], ["timeline", GROUP], ["movement", GROUP], ["churn"],
        ["timeouts", GROUP], ["zombies", GROUP], ["offsets", GROUP],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_answer_says_it(words, where, capsys):
    assert run(["history", *words, *where]) == 0
    out, err = capsys.readouterr()
    assert _SAYS in err
    assert "no rebalance in this window" not in out
    assert "0 rebalances" not in out
    assert "1970" not in out
    assert run(["history", *words, *where, "-o", "json"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert _SAYS in warning


@pytest.mark.few(1)
def test_the_page_says_it_too(where, tmp_path, capsys):
    assert run(["history", "explain", GROUP, *where, "--report", str(tmp_path / "explain.html")]) == 0
    assert run(["history", "churn", *where, "--report", str(tmp_path / "churn.html")]) == 0
    capsys.readouterr()
    for page in ("explain", "churn"):
        assert "compaction has removed records" in (tmp_path / f"{page}.html").read_text()


def test_the_commands_that_are_suggested_for_a_live_cluster_can_be_run(log, capsys):
    """They fail because no broker answers, and not because of how they are written."""
    steps = explain_group(opened(compacted(log), _LIVE), GROUP).next_steps
    assert steps
    for step in steps:
        assert run([*step.command.split()[1:], "--timeout", "1s"]) == 5, step.command
    capsys.readouterr()
