"""Stores are opened once, as long as they are reached in the same way."""

import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow import fs

from kgm.history.places import file_systems
from kgm.history.places.file_systems import opened
from kgm.history.places.remote_path import RemotePath
from kgm.model.errors import KgmError


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"])
def test_what_the_environment_says_now_counts(monkeypatch, name):
    for each in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    values = ("http://127.0.0.1:1", "http://127.0.0.1:2") if "URL" in name else ("eu-north-1", "eu-south-1")
    monkeypatch.setenv(name, values[0])
    first = opened("s3://bucket")[0]
    assert opened("s3://bucket")[0] is first
    if name == "AWS_DEFAULT_REGION":
        monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv(name, values[1])
    assert opened("s3://bucket")[0] is not first


def test_a_directory_that_is_made_while_it_is_listed(tmp_path, monkeypatch):
    """pyarrow asks a file system of fsspec whether a path is a directory, and then whether it is there."""

    class Made(LocalFileSystem):
        def isdir(self, path):
            before = super().isdir(path)
            (tmp_path / "builds").mkdir(exist_ok=True)
            return before

    system = fs.PyFileSystem(fs.FSSpecHandler(Made(skip_instance_cache=True)))
    monkeypatch.setattr(file_systems, "opened", lambda _: (system, str(tmp_path)))
    assert list(RemotePath("webhdfs://name", "builds").glob("*.json")) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(KgmError, match="file"):
        list(RemotePath("webhdfs://name", "file").glob("*.json"))
