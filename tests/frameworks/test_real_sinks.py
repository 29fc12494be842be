"""Restarts of Connect workers do to the groups of their sink connectors what is predicted: those that were seen once and
are kept, and real ones."""

import pytest

from tests.frameworks.sink_scenes import misses, play_all, predicted, recorded


@pytest.mark.few(1)
@pytest.mark.parametrize("line", recorded(), ids=lambda line: line["scene"])
def test_what_was_seen_is_within_what_is_predicted(line):
    assert not misses(line, predicted(line))


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.scenes
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("in_one_jvm", [True, False], ids=["one JVM", "JVMs of their own"])
def test_real_workers_do_what_is_predicted(kafka, in_one_jvm):
    lines = play_all(kafka, in_one_jvm=in_one_jvm)
    assert not {line["scene"]: found for line in lines if (found := misses(line, predicted(line)))}
