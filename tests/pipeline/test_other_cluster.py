"""A capture that follows a cluster, when another one answers at its address: the same offsets are other records there."""

import threading

import pyarrow.dataset as ds
import pytest

from kgm.client.failures import OtherClusterError
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.history.store.sink_files import counted_files
from kgm.pipeline import Source, capture
from kgm.pipeline.taking import engine
from kgm.server import serve_in_thread
from tests.client.faults import FaultProxy
from tests.client.joiners import form_group

TOPIC = "orders"


def keys(out):
    files = list(map(str, counted_files(out / "bronze" / "raw")))
    return b" ".join(key or b"" for key in ds.dataset(files, format="parquet").to_table()["key"].to_pylist())


def test_nothing_of_another_cluster_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(engine.Engine, "has_spark", False)
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with (
        serve_in_thread(topics={TOPIC: 6}, settings=settings, data_dir=tmp_path / "1") as first,
        serve_in_thread(topics={TOPIC: 6}, settings=settings, data_dir=tmp_path / "2") as second,
        FaultProxy((first.host, first.port)) as proxy,
    ):
        joiners = form_group(first, "mine", ["a"], TOPIC)
        for number in range(20):  # in many partitions
            joiners += form_group(second, f"theirs-{number}", ["a"], TOPIC)

        stop = threading.Event()

        def switch(progress):
            if progress.batches > 1:
                stop.set()
            proxy.backend = (second.host, second.port)
            proxy.cut()

        source, out = Source.parse("kafka", {"bootstrap.servers": proxy.bootstrap}), tmp_path / "store"
        with pytest.raises(OtherClusterError) as caught:
            capture(out, source, once=False, every_s=0.1, stop=stop, on_batch=switch)
        for joiner in joiners:
            joiner.close()
    assert caught.value.exit_code == 6
    assert b"mine" in keys(out)
    assert b"theirs" not in keys(out)
