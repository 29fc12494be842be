"""librdkafka consumers, each in a process of its own; see members.py and forked_process.py.

`rd_member.py --fork SOCKET` forks a member for each connection to a Unix socket, which is the standard input and output
of that member; such a member starts in milliseconds. It prints "ready PID", and the first line that it reads is JSON
{"config": ..., "topics": [...]}. Commands are JSON lines too: {"cmd": "commit" | "pause" | "close" | "stall" |
"subscribe" | "unsubscribe"}. So are its events. When its input ends, it exits without telling the broker.

With "transaction_every_s" in the JSON, the member commits its positions in a transaction at that interval if it has
read anything.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

#: The most records that it reads before it looks for a command.
_MOST_POLLED = 500
_FATAL_TEXTS = {
    "fenced by other consumer": "FENCED_INSTANCE_ID",
    "instance ID is still used": "UNRELEASED_INSTANCE_ID",
}


def _commands(into: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        into.put(json.loads(line))
    os._exit(143)


class Member:
    def __init__(self, config: dict[str, Any], topics: list[str], transaction_every_s: float | None = None) -> None:
        self.assignment: set[tuple[str, int]] = set()
        self.commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self.polled = 0
        #: First and last offset of each partition, by TOPIC-PARTITION.
        self.offsets: dict[str, tuple[int, int]] = {}
        self.member_id = ""
        self.fatal = False
        threading.Thread(target=_commands, args=(self.commands,), daemon=True).start()
        self.consumer = Consumer({**config, "error_cb": self.on_error})
        self.consumer.subscribe(topics, on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)
        self.transactions = None
        if transaction_every_s is not None:
            self.transactions = Transactions(config, self.consumer, transaction_every_s)
        self.emit("started")

    def run(self) -> None:
        while True:
            self.read()
            if self.polled:
                if self.transactions is not None and (error := self.transactions.commit()) is not None:
                    self.emit("error", error=error.name(), message=error.str())
                self.emit("polled", count=self.polled, offsets=self.offsets)
                self.polled, self.offsets = 0, {}
            try:
                command = self.commands.get_nowait()
            except queue.Empty:
                continue
            if self.obey(command):
                return

    def read(self) -> None:
        """Read what there is, record by record: consume() stores no offset of a batch until all of it was read, and a
        revocation may come in the middle."""
        message, polls = self.consumer.poll(0.05), 0
        while message is not None:
            if error := message.error():
                self.on_error(error)
            else:
                self.polled += 1
                place, last = f"{message.topic()}-{message.partition()}", message.offset()
                first, _ = self.offsets.get(place, (last, last))
                self.offsets[place] = (first, last)
            polls += 1
            message = self.consumer.poll(0) if polls < _MOST_POLLED else None

    def obey(self, command: dict[str, Any]) -> bool:
        match command["cmd"]:
            case "commit":
                try:
                    self.consumer.commit(asynchronous=False)
                    self.emit("committed")
                except KafkaException as error:
                    self.emit("error", error=error.args[0].name(), message=error.args[0].str())
            case "pause":
                self.consumer.pause(self.consumer.assignment())
                self.emit("paused")
            case "stall":
                time.sleep(command["ms"] / 1000)
            case "subscribe":
                handlers = {"on_assign": self.on_assign, "on_revoke": self.on_revoke, "on_lost": self.on_lost}
                self.consumer.subscribe(command["topics"], **handlers)
            case "unsubscribe":
                self.consumer.unsubscribe()
            case "close":
                self.consumer.close()
                self.emit("closed")
                return True
            case other:
                raise ValueError(other)
        return False

    def on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.member_id = self.consumer.memberid() or ""
        self.assignment |= {(p.topic, p.partition) for p in partitions}
        self.emit("assigned", partitions=[(p.topic, p.partition) for p in partitions])

    def on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignment -= {(p.topic, p.partition) for p in partitions}
        self.emit("revoked", partitions=[(p.topic, p.partition) for p in partitions])

    def on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignment -= {(p.topic, p.partition) for p in partitions}
        self.emit("lost", partitions=[(p.topic, p.partition) for p in partitions])

    def on_error(self, error: KafkaError) -> None:
        name = error.name()
        fatal = error.fatal() or error.code() == KafkaError._FATAL
        if fatal:
            if self.fatal:
                return
            self.fatal = True
            name = next((code for text, code in _FATAL_TEXTS.items() if text in error.str()), name)
        self.emit("fatal" if fatal else "error", error=name, message=error.str())

    def emit(self, event: str, **data: Any) -> None:
        line = {"event": event, "at": time.monotonic(), "member_id": self.member_id, **data}
        line["assignment"] = sorted(self.assignment)
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


class Transactions:
    """Commits the positions of a consumer in transactions, as an application with exactly-once semantics does."""

    def __init__(self, config: dict[str, Any], consumer: Consumer, every_s: float) -> None:
        settings = {"bootstrap.servers": config["bootstrap.servers"], "log_level": 0}
        self.producer = Producer(settings | {"transactional.id": f"{config['client.id']}-{os.getpid()}"})
        self.producer.init_transactions(30)
        self.consumer, self.every_s, self.due_at = consumer, every_s, time.monotonic() + every_s

    def commit(self) -> KafkaError | None:
        """Commit if it is due; returns the error."""
        if time.monotonic() < self.due_at:
            return None
        self.due_at = time.monotonic() + self.every_s
        positions = [each for each in self.consumer.position(self.consumer.assignment()) if each.offset >= 0]
        if not positions:
            return None
        try:
            self.producer.begin_transaction()
            self.producer.send_offsets_to_transaction(positions, self.consumer.consumer_group_metadata(), 5)
            self.producer.commit_transaction(5)
        except KafkaException as failure:
            error = failure.args[0]
            if error.txn_requires_abort():
                self.producer.abort_transaction(5)
            return error
        return None


def _fork(path: str) -> dict[str, Any]:
    """Fork a process for each connection until standard input ends; returns in each of them, with its JSON."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(143)
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            os.dup2(connection.fileno(), 0)
            os.dup2(connection.fileno(), 1)
            connection.close()
            sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
            sys.stdout.write(f"ready {os.getpid()}\n")
            sys.stdout.flush()
            return json.loads(sys.stdin.readline())
        connection.close()


if __name__ == "__main__":
    Member(**_fork(sys.argv[2])).run()
