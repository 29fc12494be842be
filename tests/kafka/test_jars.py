"""The cache of jars, with a fake Maven."""

import threading

import pytest

from tests.kafka import jars


@pytest.fixture
def bin_dir(tmp_path, monkeypatch):
    """A PATH with nothing but java and the shell's tools; the cache is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("KGM_CACHE", str(tmp_path / "cache"))
    script(folder / "java", "exit 0")
    return folder


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_cache_dir_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("KGM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert jars.cache_dir() == tmp_path / "home/.cache/kgm"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jars.cache_dir() == tmp_path / "xdg/kgm"
    monkeypatch.setenv("KGM_CACHE", str(tmp_path / "own"))
    assert jars.cache_dir() == tmp_path / "own"


def test_a_set_is_fetched_once_by_many_at_once(bin_dir, tmp_path):
    log = tmp_path / "log"
    script(
        bin_dir / "mvn",
        f'for a; do case $a in -DoutputDirectory=*) out="${{a#*=}}";; esac; done\n'
        f'echo fetched >> {log}; mkdir "$out"; echo x > "$out/a.jar"',
    )
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(jars.jars("kafka"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(folders) == {tmp_path / "cache" / "kafka-4.3.0"}
    assert (folders[0] / "a.jar").read_text() == "x\n"
    assert log.read_text() == "fetched\n"


def test_a_failed_fetch_says_why_and_leaves_nothing(bin_dir, tmp_path):
    script(bin_dir / "mvn", "echo no route; exit 1")
    with pytest.raises(jars.KafkaUnavailableError, match="no route"):
        jars.jars("kafka-2.2.2")
    assert [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


def test_a_missing_program_is_named(bin_dir, monkeypatch):
    monkeypatch.setenv("PATH", str(bin_dir))
    with pytest.raises(jars.KafkaUnavailableError, match="needs mvn: not installed"):
        jars.jars("kafka")
