"""The same store in a real HDFS, over HTTP: a file appears there when it is begun, so small ones are renamed into
place."""

import pytest

from tests.hdfs import MiniHdfs
from tests.pipeline.test_remote_store import (  # noqa: F401  (collected here, with the fixture `store` of this module)
    _without_spark,
    log,
    test_a_store_grows_as_a_local_one_does,
    test_one_capture_and_one_build_at_a_time,
    test_two_writers_that_do_not_see_each_other,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    cluster = MiniHdfs(tmp_path_factory.mktemp("hdfs"))
    yield cluster
    cluster.stop()


@pytest.fixture
def store(hdfs):
    return hdfs.directory()
