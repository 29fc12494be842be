"""Stores are opened once, as long as they are reached in the same way."""

import pytest

from kgm.history.places.file_systems import opened


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
