"""One Spark for the session, set up to start fast; tests that use it are marked `spark`. Spark itself fetches the jars
for Delta once, into kgm's cache."""

import gc
from pathlib import Path

import pytest

from kgm.pipeline import Source
from tests.pipeline.sparks import FAST, jars, stopped
from tests.pipeline.writer import write_log

_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            # The first test that asks for Spark fetches jars and starts a JVM, which takes long on a busy machine.
            item.add_marker(pytest.mark.timeout(1200))
        # PySpark leaves its sockets to the garbage collector. Those of a test are collected while warnings are ignored;
        # those of threads that end later are collected in a later test of this folder.
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _collected(request):
    yield
    if request.node.get_closest_marker("spark"):
        gc.collect()


@pytest.fixture(scope="session")
def options():
    """The options with which the tests start every job."""
    from kgm.pipeline import SparkOptions

    return SparkOptions(master="local[1,4]", conf=FAST, jars=jars())


@pytest.fixture(scope="session")
def spark(options):
    """The session; jobs that ask for one get the same. Its workers have credentials for the S3 server."""
    from kgm.pipeline import Source, start
    from tests.s3 import CREDENTIALS

    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        session = start(options, Source.parse("delta:any"))
    yield session
    stopped(session)


@pytest.fixture(scope="session")
def plain_log(tmp_path_factory) -> Path:
    """A broker's folders: four partitions, 8396 records, with transactions, and one of them open."""
    from tests.records.real_logs import partitions, unpack

    folder = tmp_path_factory.mktemp("plain")
    for partition, path in partitions("plain").items():
        unpack("plain", partition, folder / path.name)
    return folder


@pytest.fixture
def log(tmp_path):
    """(source, a function that appends a given number of records to each of two partitions)"""
    writers = [write_log(tmp_path / "log", partition) for partition in (0, 1)]

    def grow(count):
        for writer in writers:
            writer(count)

    grow(100)
    return Source.parse(f"segments:{tmp_path / 'log'}"), grow
