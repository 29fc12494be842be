"""Footers of Parquet files in which any byte may be another: pyarrow ends the whole process for some of them, unless they
are refused before."""

from __future__ import annotations

import random
from contextlib import suppress

import pyarrow as pa
import pytest

from kgm.history.places.parquet import opened_parquet
from tests.cli.options.test_mutated_sources import dump, store
from tests.selection import first_seed, sized

COUNT = sized(400, 40_000)


def damaged(data, draw):
    """The file with one to three bytes of its footer replaced, flipped, added or removed."""
    found = bytearray(data)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(start, len(found) - 8)
        found[at : at + draw.choice([1, 1, 1, 2, 4])] = draw.choice(
            [draw.randbytes(1), bytes([found[at] ^ (1 << draw.randrange(8))]), draw.randbytes(draw.randrange(4))]
        )
    footer = found[start : max(start, len(found) - 8)]
    return bytes(found[:start] + footer) + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("make", [dump, store])
def test_a_damaged_footer_is_refused_or_read(tmp_path, make):
    data = make(tmp_path).read_bytes()
    draw = random.Random(first_seed())
    read = 0
    for _ in range(COUNT):
        file = pa.BufferReader(damaged(data, draw))
        try:
            opened = opened_parquet(file)
        except (pa.ArrowException, OSError, UnicodeDecodeError):  # as `damage_as_usage_error` takes them
            continue
        for at in range(opened.metadata.num_row_groups):
            group = opened.metadata.row_group(at)
            for column in map(group.column, range(group.num_columns)):
                with suppress(UnicodeDecodeError):
                    str(column.statistics)  # which reads all that there is
        read += 1
    assert 0 < read < COUNT
