"""The exit codes of `kgm history`, each seen. Against a cluster they are those of the client: tests/pipeline."""

import gzip
import shutil

import pytest

from kgm.cli.main import run
from tests.cli.commands.history.conftest import SEGMENTS
from tests.cli.commands.history.endings import ENDINGS
from tests.records.real_logs import DATA


@pytest.fixture
def places(store, tmp_path):
    shutil.copytree(DATA / "plain", tmp_path / "bad")
    largest = max((tmp_path / "bad").rglob("*.log.gz"), key=lambda path: path.stat().st_size)
    data = bytearray(gzip.decompress(largest.read_bytes()))
    data[len(data) // 2] ^= 0xFF
    largest.with_suffix("").write_bytes(data)
    largest.unlink()
    page = tmp_path / "page" / "__consumer_offsets-0"
    page.mkdir(parents=True)
    (page / "00000000000000000000.log").write_bytes(b"<html><body>404 not found</body></html>\n" * 20)
    return {
        "{store}": str(store), "{segments}": SEGMENTS, "{none}": str(tmp_path / "none"),
        "{bad}": f"segments:{tmp_path / 'bad'}", "{page}": str(page.parent),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: f"{ending.id}-{ending.when.replace(' ', '-')}")
def test_exit_code(ending, places, capsys):
    words = ending.words
    for name, place in places.items():
        words = words.replace(name, place)
    code = run(["history", ending.command, *words.split()])
    err = capsys.readouterr().err
    assert code == ending.code, err
    assert "Traceback" not in err
    assert bool(err) == bool(code), err
