"""A transaction that does not end keeps the log of its partition from compaction: in memory only for so long."""

import pytest

from kgm.model.errors import ErrorCode
from kgm.server.contract.limits import Limits
from tests.server.apis.test_transactions import Writer, offset_of, writer
from tests.server.broker_driver import Driver
from tests.server.disk import Disk
from tests.server.group_requests import commit

MOST = 200_000


@pytest.fixture
def driver():
    return Driver(limits=Limits(open_transactions_max_bytes=MOST), offsets_topic_num_partitions=1)


def log_bytes(driver):
    return driver.cluster.shards.log(0).size


def test_what_one_commits_again_and_again_is_bounded(driver):
    """Its producer learns of it as of a transaction whose time is up."""
    endless = Writer(driver)
    assert (endless.init(timeout_ms=900_000), endless.add_offsets()) == (0, 0)
    codes = []
    for number in range(4_000):
        codes.append(endless.commit_offset(number))
        driver.advance(1)
        if codes[-1]:
            break
    assert codes[0] == 0
    assert codes[-1] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log_bytes(driver) < 2 * MOST
    assert offset_of(driver) is None
    again = writer(driver)
    assert (again.add_offsets(), again.commit_offset(5), again.end()) == (0, 0, 0)
    assert offset_of(driver) == 5


def test_what_others_write_meanwhile_is_bounded_too(driver):
    """The one that has been open for longest ends; a later one goes on."""
    old, young = writer(driver, name="old"), writer(driver, name="young")
    assert (old.add_offsets(), old.commit_offset(1)) == (0, 0)
    for number in range(2_400):
        if number == 1_500:
            assert (young.add_offsets(), young.commit_offset(2)) == (0, 0)
        driver.ask(commit("other", offset=number, name="t"), version=8)
        driver.advance(1)
    assert old.end() == ErrorCode.PRODUCER_FENCED
    assert young.commit_offset(3) == 0
    assert (young.end(), offset_of(driver)) == (0, 3)


def test_transactions_that_end_are_left_alone(driver):
    """Though there is an open one at any moment."""
    before = writer(driver, name="0")
    before.add_offsets()
    for number in range(1, 30):
        one = writer(driver, name=str(number))
        assert one.add_offsets() == 0
        for offset in range(100):
            assert one.commit_offset(offset) == 0
            driver.advance(1)
        assert before.end() == 0
        before = one


def test_on_disk_they_hold_no_memory(tmp_path):
    driver = Disk(tmp_path).start(limits=Limits(open_transactions_max_bytes=1))
    one = writer(driver)
    assert one.add_offsets() == 0
    for number in range(5):
        assert one.commit_offset(number) == 0
        driver.advance(1)
    assert one.end() == 0
