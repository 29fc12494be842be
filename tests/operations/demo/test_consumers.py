"""The demo's clients of librdkafka."""

import signal

import confluent_kafka
import pytest

from kgm.operations.demo.consumers import produce

NOWHERE = "127.0.0.1:1"


def test_ctrl_c_waits_until_a_client_is_made(monkeypatch):
    made = []

    class Producer:
        def __init__(self, settings):
            signal.raise_signal(signal.SIGINT)
            made.append(settings["bootstrap.servers"])

        def produce(self, *_words, **_more):
            raise AssertionError("the demo goes on")

    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        produce(NOWHERE, "t", 1)
    assert made == [NOWHERE]
    assert signal.getsignal(signal.SIGINT) is before
