"""The log of a real broker, rotated and gzipped, says the same as in one piece."""

import gzip
import json
from dataclasses import replace

import pytest

from kgm.history.causes.broker_log import BROKER_LOG, explained, parse
from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.derive import derive
from kgm.history.row_tables import read_rows
from kgm.history.rows import RebalanceRow
from kgm.operations.history.broker_logs import broker_reasons
from tests.history.truth.driven import SESSION_MS, Broker, Stage, dynamic
from tests.kafka.members import RdMembers

pytestmark = [pytest.mark.long, pytest.mark.scenes, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def recorded():
    """(rebalances, lines of the broker's log)."""
    with Broker() as broker:
        with RdMembers(broker.cluster.bootstrap) as rd:
            for protocol in ("classic", "consumer"):
                dynamic(Stage(broker, 0), rd, protocol)
        broker.quiet()
        tables = derive(broker.raw(), session_of_group=GivenSessions(default_ms=SESSION_MS)).tables
        rows = sorted(read_rows(RebalanceRow, tables["gold_rebalance"]), key=lambda row: (row.partition, row.offset))
        return rows, broker.log


def without_places(rows):
    """The rebalances without the evidence of where the line is."""
    return [replace(row, evidence=[line for line in row.evidence if not line.startswith("logged")]) for row in rows]


def rotate(folder, lines, pieces):
    """The newest piece is the log, the older ones have numbers and are gzipped, but for one."""
    size = -(-len(lines) // pieces)
    for number in range(pieces):
        text = "".join(f"{line}\n" for line in lines[number * size : (number + 1) * size])
        age = pieces - 1 - number
        if age > 1:
            (folder / f"server.log.{age}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / ("server.log" if age == 0 else "server.log.1")).write_text(text)


def test_rotated(recorded, tmp_path):
    rows, lines = recorded
    whole = explained(rows, parse(lines))
    assert sum(row.source == BROKER_LOG for row in whole) > 0.9 * len(whole) > 8
    rotate(tmp_path, lines, pieces=37)
    assert without_places(explained(rows, broker_reasons([tmp_path]))) == without_places(whole)


def test_each_line_an_entry_of_journald(recorded, tmp_path):
    rows, lines = recorded
    log = tmp_path / "kafka.json"
    log.write_text("".join(json.dumps({"MESSAGE": line}) + "\n" for line in lines))
    whole = explained(rows, parse(lines))
    assert without_places(explained(rows, broker_reasons([log]))) == without_places(whole)
