"""Logs of brokers as people keep them: rotated, gzipped, of several brokers, exported from journald."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pytest

from kgm.model.errors import MissingFileError, UsageError
from kgm.operations.history.broker_logs import broker_reasons
from kgm.operations.history.explanation import explain
from tests.records.real_logs import DATA
from tests.selection import sized

SEGMENTS = f"segments:{DATA / 'plain'}"
#: Of `billing`, from generation 3 to 4, and from 4 to 5.
EXPIRED = (
    "INFO Preparing to rebalance group billing in state PREPARING_REBALANCE with old generation 3 (reason: removing "
    "member billing-0-c3574b5c-38a1-4c1f-948f-c845330d7317 on heartbeat expiration). (o.a.k.GroupMetadataManager)"
)
JOINED = (
    "INFO Preparing to rebalance group billing in state PREPARING_REBALANCE with old generation 4 (reason: Adding new "
    "member billing-0-018a8f01-5385-4cba-93af-808a072e22d8 with group instance id Some(billing-0); client reason: not "
    "provided). (o.a.k.GroupMetadataManager)"
)
AT = {EXPIRED: datetime(2026, 11, 21, 4, 4, 3, 728_000, UTC), JOINED: datetime(2026, 11, 21, 4, 4, 8, 700_000, UTC)}
MEMBER = "INFO [GroupId live] Member m1 joins the consumer group using the consumer protocol. (o.a.k.Group)"
BUMPED = "INFO [GroupId live] Bumped group epoch to 2 with metadata hash 17. (o.a.k.Group)"


def stamped(text, at):
    return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}] {text}\n"


def local(text, hours=0.0):
    """The line as a broker writes it whose clock is ahead of UTC."""
    return stamped(text, AT[text] + timedelta(hours=hours))


def plain(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def zipped(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(lines).encode()))


def microseconds(at):
    return str(int(at.timestamp() * 1_000_000))


def json_entry(text, *, is_binary=False):
    message = list(text.encode()) if is_binary else text
    return json.dumps({"__REALTIME_TIMESTAMP": microseconds(AT[text]), "_HOSTNAME": "b1", "MESSAGE": message}) + "\n"


def export_entry(text, *, is_binary=False):
    body = text.encode()
    message = b"MESSAGE=" + body
    if is_binary:
        message = b"MESSAGE\n" + len(body).to_bytes(8, "little") + body
    return b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=" + microseconds(AT[text]).encode() + b"\n" + message + b"\n\n"


def explained(generation, *paths):
    return explain("billing", SEGMENTS, generation=generation, broker_logs=paths).rebalance


def causes(*paths):
    """Of generations 4 and 5, and where they are from."""
    rows = [explained(generation, *paths) for generation in (4, 5)]
    return [(row.cause, row.confidence, row.source) for row in rows]


BOTH = [("session-expiry", "certain", "broker log"), ("bounce", "certain", "broker log")]


def evidence(row):
    (line,) = [each for each in row.evidence if each.startswith("logged")]
    return line


@pytest.mark.long
def test_a_directory_of_rotated_logs_of_two_brokers(tmp_path):
    zipped(tmp_path / "broker-1" / "server.log.2026-11-21-04.gz", local(EXPIRED))
    plain(tmp_path / "broker-1" / "server.log", stamped("INFO something else", datetime(2026, 11, 22, tzinfo=UTC)))
    zipped(tmp_path / "broker-2" / "server.log.1.gz", local(JOINED))
    (tmp_path / "broker-2" / "00000000000000000000.index").write_bytes(bytes(64))
    assert causes(tmp_path) == BOTH
    assert "by broker-1/server.log at 2026-11-21 04:04:03.728 UTC" in evidence(explained(4, tmp_path))


def test_what_one_file_begins_the_next_one_completes(tmp_path):
    """Rotation may come between the line about a member and the one about the epoch. Names tell nothing of the order."""
    at = datetime(2026, 11, 21, 4, tzinfo=UTC)
    plain(tmp_path / "server.log.1", stamped(BUMPED, at + timedelta(seconds=1)))
    zipped(tmp_path / "server.log.2.gz", stamped(MEMBER, at))
    (reason,) = broker_reasons([tmp_path])
    assert (reason.cause, reason.generation, reason.member) == ("join", 2, "m1")


def test_files_that_begin_in_the_same_millisecond(tmp_path):
    at = datetime(2026, 11, 21, 4, tzinfo=UTC)
    plain(tmp_path / "server.log", stamped(BUMPED, at))
    zipped(tmp_path / "server.log.9.gz", stamped(MEMBER.replace("m1", "m2"), at))
    zipped(tmp_path / "server.log.10.gz", stamped(MEMBER, at))
    assert [each.member for each in broker_reasons([tmp_path])] == ["m1", "m2"]


def test_what_one_broker_begins_another_one_does_not_complete(tmp_path):
    at = datetime(2026, 11, 21, 4, tzinfo=UTC)
    plain(tmp_path / "broker-1" / "server.log", stamped(MEMBER, at))
    plain(tmp_path / "broker-2" / "server.log", stamped(BUMPED, at + timedelta(seconds=1)))
    assert [each.cause for each in broker_reasons([tmp_path])] == ["metadata-change"]
    files = [tmp_path / name / "server.log" for name in ("broker-1", "broker-2")]
    assert [each.cause for each in broker_reasons(files)] == ["metadata-change"]


def test_a_file_that_is_named_twice_counts_once(tmp_path):
    plain(tmp_path / "server.log", local(EXPIRED))
    assert len(list(broker_reasons([tmp_path, tmp_path / "server.log"]))) == 1


@pytest.mark.long
@pytest.mark.parametrize("is_binary", sized([False], [False, True]))
def test_journald(tmp_path, is_binary):
    logs = tmp_path / "kafka.json"
    logs.write_text(json_entry(EXPIRED, is_binary=is_binary) + json_entry(JOINED))
    assert causes(logs) == BOTH
    assert evidence(explained(4, logs)).endswith("at 2026-11-21 04:04:03.728 UTC")
    logs.write_bytes(export_entry(EXPIRED, is_binary=is_binary) + export_entry(JOINED))
    assert causes(logs) == BOTH
    short = [f"Nov 21 04:04:03 b1 kafka-server-start.sh[71]: {local(text)}" for text in (EXPIRED, JOINED)]
    plain(logs, *short)
    assert causes(logs) == BOTH
    iso = [f"{AT[text]:%Y-%m-%dT%H:%M:%S}+0000 b1 kafka[71]: {text}\n" for text in (EXPIRED, JOINED)]
    plain(logs, *iso)
    assert causes(logs) == BOTH


@pytest.mark.long
def test_the_time_zone_is_shown_by_the_rebalances(tmp_path):
    log = tmp_path / "server.log"
    plain(log, local(EXPIRED, 5.5), local(JOINED, 5.5))
    assert causes(log) == BOTH
    assert "2026-11-21 09:34:03.728 UTC+05:30, the zone that 2 rebalances show" in evidence(explained(4, log))


@pytest.mark.long
def test_a_line_of_another_day_is_about_another_group(tmp_path):
    """Generations are counted from the beginning when a group was removed: the number alone proves nothing."""
    log = tmp_path / "server.log"
    plain(log, local(EXPIRED, -48), local(JOINED))
    assert explained(4, log).source == "log"
    assert explained(5, log).source == "broker log"
    logs = tmp_path / "kafka.json"
    old = json.loads(json_entry(EXPIRED))
    old["__REALTIME_TIMESTAMP"] = microseconds(AT[EXPIRED] - timedelta(hours=3))
    logs.write_text(json.dumps(old) + "\n")
    assert explained(4, logs).source == "log"


def test_what_cannot_be_read(tmp_path):
    whole = gzip.compress(local(EXPIRED).encode() * 50)
    log = tmp_path / "server.log.1.gz"
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for content in (whole[:-9], bytes(damaged), b"no gzip"):
        log.write_bytes(content)
        for path in (log, tmp_path):
            with pytest.raises(UsageError):
                list(broker_reasons([path]))
    log.write_bytes(b"\x28\xb5\x2f\xfd" + whole)
    with pytest.raises(UsageError, match="zstd"):
        list(broker_reasons([log]))
    log.unlink()
    for path in (log, tmp_path):
        with pytest.raises(MissingFileError):
            list(broker_reasons([path]))


def test_a_damaged_export(tmp_path):
    log = tmp_path / "kafka.export"
    whole = export_entry(EXPIRED, is_binary=True)
    for content in (b"__CURSOR=s=1\nMESSAGE\n" + (1 << 40).to_bytes(8, "little") + b"x\n\n", whole[:-40], whole[:70]):
        log.write_bytes(content)
        with pytest.raises(UsageError):
            list(broker_reasons([log]))


def test_lines_that_look_like_journald_are_lines(tmp_path):
    log = tmp_path / "server.log"
    plain(log, "{" * 5_000 + "\n", '{"MESSAGE": 7}\n', '{"a": 1}\n', local(EXPIRED))
    assert len(list(broker_reasons([log]))) == 1
