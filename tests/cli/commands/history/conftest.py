"""The history of a real broker's segments, as a source and as a built store."""

import pytest

from tests.history.store.stores import write_store
from tests.records.real_logs import DATA

SEGMENTS = f"segments:{DATA / 'plain'}"


@pytest.fixture(scope="session")
def tables():
    """The tables derived from the segments, in this process."""
    from kgm.history.in_process import derive_source

    return derive_source("segments", DATA / "plain", most_bytes=1 << 30)


@pytest.fixture(scope="session")
def store(tables, tmp_path_factory):
    """The same tables, as a build would leave them."""
    return write_store(tmp_path_factory.mktemp("history") / "store", tables.tables, partitions=range(4))


@pytest.fixture
def asked(store, capsys):
    """Runs `kgm history COMMAND ... --store STORE`; (exit code, stdout, stderr)."""
    from kgm.cli.main import run

    def ask(*arguments, where=("--store", str(store))):
        code = run(["history", *arguments, *where])
        out, err = capsys.readouterr()
        return code, out, err

    return ask


@pytest.fixture
def answer(asked):
    """The `data` of the JSON answer."""
    import json

    def ask(*arguments, **where):
        code, out, err = asked(*arguments, "-o", "json", **where)
        assert (code, err) == (0, ""), err
        return json.loads(out)["data"]

    return ask
