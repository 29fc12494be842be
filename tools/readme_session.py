#!/usr/bin/env python3
"""Run the README's session against a real Kafka broker and print it as it is pasted there.

usage: python tools/readme_session.py      (needs the `dev` extra)

Three static librdkafka consumers commit as they read. They are described, the removal of one that is alive is refused,
and a bounce is predicted and then done for real while kgm watches.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kafka.broker import KafkaCluster  # noqa: E402
from tests.kafka.members import RdMembers, wait_settled  # noqa: E402

GROUP, TOPIC, PARTITIONS = "payments", "transactions", 12


def shown(arguments, text, bootstrap):
    """One command and what it printed, with an address that a reader would type."""
    words = " ".join(word if re.fullmatch(r"[\w./,:=*-]+", word) else repr(word) for word in arguments)
    text = text.replace(bootstrap, "127.0.0.1:9092")
    print(f"$ kgm {words}\n{text.rstrip()}\n", flush=True)


def command_line(arguments):
    return [str(pathlib.Path(sys.executable).with_name("kgm")), *arguments]


def kgm(bootstrap, *arguments):
    done = subprocess.run(command_line(arguments), capture_output=True, text=True, check=False)
    shown(arguments, done.stdout + done.stderr, bootstrap)


@contextlib.contextmanager
def watching(bootstrap, *arguments):
    """A command that looks on while something is done."""
    process = subprocess.Popen(command_line(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        time.sleep(3)
        yield
        text, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    shown(arguments, text, bootstrap)


@contextlib.contextmanager
def traffic(kafka):
    """New records in all partitions, twice a second."""
    stopped = threading.Event()

    def produce():
        while not stopped.wait(0.5):
            kafka.produce(TOPIC, [f"payment {i}" for i in range(4 * PARTITIONS)])

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def main():
    state = tempfile.TemporaryDirectory()
    os.environ |= {"XDG_STATE_HOME": state.name}
    with state, KafkaCluster() as kafka, RdMembers(kafka.bootstrap) as members:
        os.environ["KGM_BOOTSTRAP_SERVER"] = kafka.bootstrap
        kafka.create_topics({TOPIC: PARTITIONS})
        kafka.produce(TOPIC, [f"payment {i}" for i in range(600)])
        common = {"group": GROUP, "topics": [TOPIC], "client_id": "payments", "session_timeout_ms": 45_000}
        common["heartbeat_interval_ms"] = 3000
        common["config"] = {"enable.auto.commit": "true", "auto.commit.interval.ms": "500"}
        fleet = [members.start(instance_id=f"payments-{i}", **common) for i in (1, 2, 3)]
        wait_settled(fleet, PARTITIONS)
        time.sleep(2.5)
        kgm(kafka.bootstrap, "describe", GROUP)
        with traffic(kafka):
            kgm(kafka.bootstrap, "remove-members", GROUP, "--instance-ids", "payments-2", "--yes")
        time.sleep(2.5)
        bounce = ["--instance-ids", "payments-2", "--restart-time", "10s", "--session-timeout", "45s"]
        kgm(kafka.bootstrap, "simulate-bounce", GROUP, *bounce)
        print("$ # restart payments-2 for real, ten seconds away, while kgm looks on\n")
        expected = ["--expect-no-moves", "--count", "10"]
        with watching(kafka.bootstrap, "watch", GROUP, *expected):
            fleet[1].close()
            time.sleep(10)
            fleet[1] = members.start(instance_id="payments-2", **common)
            fleet[1].wait_assigned()


if __name__ == "__main__":
    main()
