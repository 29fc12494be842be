"""The cache of jars, filled by the real Ivy from a repository of small files."""

import functools
import hashlib
import http.server
import threading

import pytest

from tests.kafka import jars
from tests.kafka.ivy import Artifact
from tests.kafka.runtime import KafkaUnavailableError

SHARED, CLASSES, TESTS = (
    Artifact("org.example", "shared", "1.0"),
    Artifact("org.example", "server", "2.0"),
    Artifact("org.example", "server", "2.0", "test"),
)
SETS = {"one": (SHARED, CLASSES, TESTS), "other": (SHARED,)}


class Repository(http.server.SimpleHTTPRequestHandler):
    """Writes down what was fetched."""

    fetched: list[str]

    def do_GET(self):
        self.fetched.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The folder of a repository that has the jars of two sets; the cache is empty."""
    root = tmp_path / "repository"
    digests = {}
    for one in SETS["one"]:
        path = root / one.group.replace(".", "/") / one.name / one.version / one.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(one))
        digests[one] = hashlib.sha256(str(one).encode()).hexdigest()
    monkeypatch.setenv("KGM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "SETS", SETS)
    monkeypatch.setattr(jars, "locked_jars", lambda: {name: {one: digests[one] for one in SETS[name]} for name in SETS})
    Repository.fetched = []
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Repository, directory=str(root))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("KGM_MAVEN_MIRROR", f"http://127.0.0.1:{server.server_port}")
        yield root
        server.shutdown()
        thread.join()


def left(folder):
    """What is in the cache, its locks aside."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_cache_dir_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("KGM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert jars.cache_dir() == tmp_path / "home/.cache/kgm"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jars.cache_dir() == tmp_path / "xdg/kgm"
    monkeypatch.setenv("KGM_CACHE", str(tmp_path / "own"))
    assert jars.cache_dir() == tmp_path / "own"


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
def test_a_jar_is_fetched_and_stored_once_for_all_sets_and_whoever_asks_at_once(repository, tmp_path):
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(jars.jars("one"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (folder,) = set(folders)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        one.file_name: str(one) for one in SETS["one"]
    }
    other = jars.jars("other")
    assert [path.name for path in other.iterdir()] == ["shared-1.0.jar"]
    assert (other / "shared-1.0.jar").samefile(folder / "shared-1.0.jar")
    assert sorted(path.rpartition("/")[2] for path in Repository.fetched) == sorted(
        one.file_name for one in SETS["one"]
    )
    assert left(tmp_path / "cache") == ["jars"]


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
def test_a_jar_that_is_another_one_is_refused_and_leaves_nothing(repository, tmp_path):
    (repository / "org/example/shared/1.0/shared-1.0.jar").write_text("somebody else's")
    with pytest.raises(RuntimeError, match=r"org.example:shared:1.0 has the digest \w+, and jars.json has \w+"):
        jars.jars("other")
    assert left(tmp_path / "cache" / "jars") == ["store"]
    assert left(tmp_path / "cache" / "jars" / "store") == []


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.slow
def test_what_cannot_be_fetched_is_unavailable_and_named(repository, tmp_path):
    (repository / "org/example/shared/1.0/shared-1.0.jar").unlink()
    with pytest.raises(KafkaUnavailableError, match=r"needs jars: (?s:.*)org\.example#shared;1\.0"):
        jars.jars("other")
    assert left(tmp_path / "cache" / "jars" / "store") == []


def test_every_set_is_pinned_with_what_it_is_made_of():
    pinned = jars.locked_jars()
    assert pinned.keys() == jars.SETS.keys()
    for name, artifacts in jars.SETS.items():
        assert set(artifacts) <= pinned[name].keys(), name
        assert all(len(bytes.fromhex(digest)) == 32 for digest in pinned[name].values()), name
        names = [one.file_name for one in pinned[name]]
        assert len(names) == len(set(names)), name
