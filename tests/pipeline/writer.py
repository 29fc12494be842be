"""A log of offset commits that grows, as a broker's would."""

from kgm.records.batch import new_batch
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, encode_record


def write_log(folder, partition, *, group="fleet"):
    """A function that appends a given number of commits to a partition's segment, five to a batch, and returns how
    many."""
    path = folder / f"__consumer_offsets-{partition}" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    offset = 0

    def write(count):
        nonlocal offset
        with path.open("ab") as file:
            for start in range(offset, offset + count, 5):
                pairs = [encode_record(commit(number)) for number in range(start, start + 5)]
                data = new_batch(pairs, base_offset=start, timestamp_ms=1_700_000_000_000 + start)
                file.write(data[: len(data) // 2])
                file.flush()
                file.write(data[len(data) // 2 :])
        offset += count
        return count

    def commit(number):
        return Record(
            key=OffsetCommitKey(group=f"{group}-{partition}-{number % 40}", topic="orders", partition=number % 7),
            value=OffsetCommitValue(offset=number, metadata="", commit_timestamp=1_700_000_000_000 + number),
        )

    return write
