"""Scenes about what the past leaves behind: copied segments, metrics, and kgm's own removals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request

from kgm.java.partitions import partition_for
from tests.cli.environment import bare
from tests.cli.forked import forked_command
from tests.questions.scenes.members import dies_static
from tests.questions.stage import Stage
from tests.waiting import until


def broken_record(stage: Stage) -> None:
    """A copy of the group's partition of __consumer_offsets in which bytes are damaged."""
    member = stage.alone("audit-1")
    for offset in range(5):
        assert member.commit(0, offset) == 0
    folders = sorted(stage.kafka.log_dir().glob("__consumer_offsets-*"))
    folder = stage.kafka.log_dir() / f"__consumer_offsets-{partition_for(stage.name, len(folders))}"
    target = stage.folder / "copy" / folder.name
    shutil.copytree(folder, target)
    (segment,) = target.glob("*.log")
    data = bytearray(segment.read_bytes())
    places = [found.start() for found in re.finditer(re.escape(f"{stage.name}-in".encode()), data)]
    data[places[-2] + 20] ^= 0xFF  # in the value of the last commit but one
    segment.write_bytes(data)
    stage.words["segments:copy"] = f"segments:{stage.folder / 'copy'}"


def group_was_deleted(stage: Stage) -> None:
    """Two groups are exported, and one of them is deleted."""
    for name in (stage.name, f"{stage.name}-not"):
        stage.commit(0, 0, group=name)
    words = ["export", "--match", f"{stage.name}*", "-b", stage.kafka.bootstrap, "--listen", "127.0.0.1:0"]
    command = [*forked_command(), *words, "--interval", "1s", "--findings-every", "0s"]
    exporter = stage.stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bare()))
    stage.stack.callback(exporter.terminate)
    url = f"http://{json.loads(exporter.stdout.readline())['listening']}/metrics"
    stage.words["http://127.0.0.1:9797/metrics"] = url

    def has(name: str) -> bool:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return f'kgm_group_state{{group="{name}"' in answer.read().decode()

    until(lambda: has(stage.name), "the group is not exported")
    (done,) = stage.admin.delete_consumer_groups([stage.name]).values()
    done.result(30)
    until(lambda: not has(stage.name) and has(f"{stage.name}-not"), "the group is still exported")


def kgm_removed_it(stage: Stage) -> None:
    """A dead static member, which kgm removes."""
    dies_static(stage)
