"""`kgm serve` as a process: what it prints, how it ends, what it refuses."""

import json
import re
import signal
import socket
import subprocess

import pytest

from kgm.cli.commands.serve import parse_topics
from kgm.cli.main import run
from kgm.cli.options.listen_address import parse_listen
from kgm.model.errors import ErrorCode, UsageError
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from tests import KGM
from tests.server.wire_client import WireClient

COMMAND = [*KGM, "serve"]


class Served:
    """A running `kgm serve`; ended on leaving the block."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self):
        self.line = self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    @property
    def address(self):
        host, _, port = json.loads(self.line)["listening"].rpartition(":")
        return host, int(port)

    def end(self, by):
        """(exit code, rest of stdout, stderr)."""
        self.process.send_signal(by)
        rest, errors = self.process.communicate(timeout=10)
        return self.process.returncode, rest, errors


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(("by", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_says_where_it_listens_and_ends_cleanly(by, code):
    with Served("--listen", "127.0.0.1:0", "--topic", "t:2") as served:
        assert re.fullmatch(r'\{"listening":"127\.0\.0\.1:\d+"\}\n', served.line)
        with socket.create_connection(served.address, timeout=5) as client:
            ended, rest, errors = served.end(by)
            assert client.recv(1) == b""
        assert (ended, rest) == (code, "")
        assert errors in ("", "interrupted\n")


@pytest.mark.slow
def test_several_brokers_say_where_each_listens():
    with Served("--listen", "127.0.0.1:0", "--brokers", "3") as served:
        said = json.loads(served.line)
        assert [row["id"] for row in said["brokers"]] == [1, 2, 3]
        addresses = [row["listening"] for row in said["brokers"]]
        assert addresses[0] == said["listening"]
        assert len(set(addresses)) == 3
        for address in addresses:
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=5).close()
        assert served.end(signal.SIGTERM) == (0, "", "")


@pytest.mark.slow
def test_it_warns_beyond_loopback():
    with Served("--listen", "0.0.0.0:0") as served:
        assert served.line.startswith('{"listening":"0.0.0.0:')
        code, _, errors = served.end(signal.SIGTERM)
    assert code == 0
    assert errors.startswith("warning: listening on 0.0.0.0: without authentication, every client")


@pytest.mark.slow
def test_a_client_cannot_write_escapes_on_the_terminal():
    with Served("--listen", "127.0.0.1:0") as served:
        with socket.create_connection(served.address, timeout=5) as client:
            client.sendall(b"GET /\x1b[2J HTTP/1.1\r\n\r\n")
            assert client.recv(1) == b""
        _, _, errors = served.end(signal.SIGTERM)
    assert "warning: connection from 127.0.0.1 closed: a frame of 1195725856 bytes" in errors
    assert "\x1b" not in errors


@pytest.mark.slow
def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([*COMMAND, "--listen", address], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: cannot listen on {address}")
    assert "hint: --listen" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--set", "nope=1"], "nope"),
        (["--set", "group.max.size"], "BROKER.KEY=VALUE"),
        (["--set", "group.max.size=x"], "group.max.size"),
        (["--set", "kgm.group.target.size.g=none"], "kgm.group.target.size.g is not a whole number"),
        (["--set", "kgm.group.pre.registered.instance.ids.g=a,"], "an id is empty"),
        (["--set", "kgm.group.pre.registered.instance.ids.g=a b"], "'a b' is not a valid group.instance.id"),
        (["--set", "kgm.group.target=3"], "kgm.group.target.size.GROUP"),
        (["--topic", "t"], "NAME:PARTITIONS"),
        (["--topic", "t:0"], "partitions"),
        (["--topic", "a b:1"], "topic name"),
        (["--listen", "9092"], "HOST:PORT"),
        (["--topic", "__consumer_offsets:3"], "always exists"),
        (["--brokers", "0"], "--brokers"),
        (["--brokers", "3", "--listen", "127.0.0.1:65534"], "65535"),
    ],
)
def test_usage_errors(capsys, arguments, text):
    assert run(["serve", "--listen", "127.0.0.1:0", *arguments]) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert text in errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        (":9092", ("127.0.0.1", 9092)),
    ],
)
def test_addresses(text, expected):
    assert parse_listen(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:65536", "host:-1", "::1:9092", "h:\u0663"])
def test_what_is_no_address(text):
    with pytest.raises(UsageError, match="--listen"):
        parse_listen(text)


def test_topics():
    assert parse_topics(["a:1", "b.c-d:12"]) == {"a": 1, "b.c-d": 12}
    for wrong in ("a", "a:", ":x", "a:b", "a:-1", "a:\u0663"):
        with pytest.raises(UsageError, match="--topic"):
            parse_topics([wrong])
    with pytest.raises(UsageError, match="twice"):
        parse_topics(["a:1", "a:2"])


@pytest.mark.slow
@pytest.mark.parametrize(("version", "highest"), [("4.3", 6), ("3.9", 5)])
def test_it_serves_what_brokers_of_a_version_serve(version, highest):
    with Served("--listen", "127.0.0.1:0", "--kafka-version", version) as served:
        with WireClient(served.address[1]) as wire:
            (group,) = wire.ask(DescribeGroupsRequest(groups=["none"]), version=highest).groups
        assert (group.group_state, group.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND if highest == 6 else 0)
