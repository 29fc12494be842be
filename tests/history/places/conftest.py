import pytest

from tests.s3 import S3Server


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """An S3 server that this process and those that it starts use."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.stop()


@pytest.fixture
def bucket(s3):
    return s3.bucket()
