"""What users type as the place of a store, and paths in one, without a store."""

import pickle
from pathlib import Path

import pytest

from kgm.history.places.remote_path import RemotePath, place
from kgm.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("history", Path("history")),
        ("/data/history", Path("/data/history")),
        ("file:/data/my%20history", Path("/data/my history")),
        ("file:///data/history", Path("/data/history")),
        ("C:history", Path("C:history")),
        ("s3://bucket", RemotePath("s3://bucket")),
        ("s3://bucket/a//b/", RemotePath("s3://bucket", "a/b")),
        ("gs://bucket/a", RemotePath("gs://bucket", "a")),
        ("abfs://box@account.dfs.core.windows.net/a", RemotePath("abfs://box@account.dfs.core.windows.net", "a")),
        ("hdfs://node:8020/a/b", RemotePath("hdfs://node:8020", "a/b")),
    ],
)
def test_what_is_typed(text, expected):
    assert place(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s4://bucket/a", "scheme s4:// are not supported"),
        ("http://host/a", "scheme http:// are not supported"),
        ("s3://KEY:hidden@bucket/a", "must not have credentials"),
        ("s3://KEY@bucket/a", "must not have credentials"),
        ("s3://bucket/a?secret_key=hidden", "must not have credentials or options"),
        ("abfs://box:hidden@account/a", "must not have credentials"),
        ("s3:///a", "has no bucket or path"),
        ("s3://bucket/../a", "not valid names in a store"),
        ("file://host/a", "not a valid file URI"),
    ],
)
def test_what_is_refused(text, says):
    with pytest.raises(UsageError) as caught:
        place(text)
    assert says in str(caught.value)
    for each in (str(caught.value), caught.value.hint or "", *caught.value.facts):
        assert "hidden" not in each


def test_a_path_is_put_together_as_pathlib_does():
    path = RemotePath("s3://bucket", "a") / "b" / "c.parquet"
    assert str(path) == "s3://bucket/a/b/c.parquet"
    assert (path.name, path.stem, path.parent) == ("c.parquet", "c", RemotePath("s3://bucket", "a/b"))
    assert path.with_name("d") == RemotePath("s3://bucket", "a/b/d")
    assert path.relative_to(RemotePath("s3://bucket", "a")) == Path("b/c.parquet")
    assert path.parts == ("s3://bucket", "a", "b", "c.parquet")
    assert pickle.loads(pickle.dumps(path)) == path
    assert not RemotePath("s3://bucket", "ab").is_relative_to(RemotePath("s3://bucket", "a"))
