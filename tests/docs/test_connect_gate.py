"""Between two workers of the runbook of Connect, `kgm wait` is not green while the worker before is dead."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
import uuid

import pytest

from tests.cli.forked import forked_command
from tests.docs.book import DOCS
from tests.frameworks.connect_workers import Workers
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.scenes, pytest.mark.long]
#: How long a worker is on its way: less than its session lasts (session.timeout.ms of Connect is 10 s), or more.
AWAY_S = [4, 14]


def gate():
    """The words of the command in the loop of the page."""
    (command,) = re.findall(
        r"systemctl restart .*?(kgm wait .*?) \|\| break", (DOCS / "connect-restart.md").read_text(), re.DOTALL
    )
    return command.split()[1:]


@pytest.mark.parametrize("away_s", AWAY_S)
def test_a_worker_that_was_killed_is_back_when_the_gate_opens(kafka, away_s):
    with tempfile.TemporaryDirectory(prefix="kgm-connect-") as folder:
        group = f"connect-{uuid.uuid4().hex[:8]}"
        names = ("w-1", "w-2", "w-3")
        workers = Workers(kafka.bootstrap, folder, group=group, names=names, delay_ms=10_000, in_one_jvm=False)
        try:
            for name in names:
                workers.start(name)
            workers.create({"files": 4})
            until(lambda: len(workers.settled().members) == 3, "not all workers join", 120)
            before = workers.settled()
            killed = next(one for one in before.members if workers.name_of(one) == "w-3")
            workers.kill("w-3")
            words = [group if word == "connect-cluster" else word for word in gate()]
            waiting = subprocess.Popen([*forked_command(), *words, "-b", kafka.bootstrap])
            time.sleep(away_s)
            assert waiting.poll() is None
            workers.start("w-3")
            assert waiting.wait(150) == 0
            after = workers.snapshot()
            assert killed.member_id not in {one.member_id for one in after.members}
            assert workers.url("w-3") in {one.work.user_endpoint for one in after.members}
        finally:
            workers.end()
