import pytest


@pytest.fixture
def bucket(s3):
    return s3.bucket()
