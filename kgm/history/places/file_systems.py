"""Stores named by URIs, opened through `pyarrow.fs`, with their failures turned into kgm's errors."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from kgm.history.places.drafts import UNFINISHED
from kgm.model.distribution import install_command
from kgm.model.errors import (
    AuthenticationError,
    AuthorizationError,
    KgmError,
    MissingFileError,
    UnreachableError,
    UsageError,
)

_CONNECT_S: Final = 5.0
_RETRY_S: Final = 30
_ATTEMPTS: Final = 4
_WEBHDFS_PORT: Final = 9870
#: Where each store's tools look for credentials.
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, gcloud auth application-default login, or the machine's service account",
    "abfs": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, az login, or the managed identity",
    "abfss": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, az login, or the managed identity",
    "hdfs": "the user, or its Kerberos ticket: klist",
    "webhdfs": "HADOOP_USER_NAME, or the user",
}
_S3_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION")
#: Texts in failure messages, in lower case, the most specific first.
_FAILURES: Final[tuple[tuple[tuple[str, ...], type[KgmError]], ...]] = (
    (("unable to load libhdfs", "unable to load libjvm"), UsageError),
    (
        ("invalid_access_key", "invalidaccesskey", "signature_does_not_match", "signaturedoesnotmatch", "expired_token",
         "expiredtoken", "unrecognized_client", "invalidtoken", "authenticationfailed", "unauthenticated",
         "could not create a oauth2", "could not find default credentials", "failed to get token"),
        AuthenticationError,
    ),
    (
        ("access_denied", "accessdenied", "permission_denied", "permission denied", "forbidden",
         "authorizationpermissionmismatch", "http status 403", "accesscontrolexception"),
        AuthorizationError,
    ),
    (("no_such_bucket", "nosuchbucket", "bucket not found", "containernotfound"), MissingFileError),
    (
        ("network_connection", "curlcode", "timed out", "timeout", "connection refused", "could not resolve",
         "couldn't resolve", "slow_down", "service_unavailable", "unavailable", "connectexception",
         "unknownhostexception", "hdfs connection failed", "hdfsbuilderconnect"),
        UnreachableError,
    ),
)  # fmt: skip


def opened(root: str) -> tuple[fs.FileSystem, str]:
    """(file system, path of the root in it), cached while the environment stays the same. Raises KgmError."""
    return _opened(root, tuple(os.environ.get(name) or None for name in _S3_VARIABLES))


@lru_cache(maxsize=8)
def _opened(root: str, s3: tuple[str | None, ...]) -> tuple[fs.FileSystem, str]:
    """s3: the values of _S3_VARIABLES."""
    scheme, _, authority = root.partition("://")
    with store_errors(root):
        if scheme == "s3":
            return _s3(*s3), authority
        if scheme == "gs":
            return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=_RETRY_S)), authority
        if scheme == "hdfs":
            return fs.HadoopFileSystem.from_uri(f"{root}/"), ""
        if scheme == "webhdfs":
            return _webhdfs(authority), ""
        system, base = fs.FileSystem.from_uri(f"{root}/")
        return system, base.strip("/")


def _s3(
    endpoint: str | None, general_endpoint: str | None, region: str | None, default_region: str | None
) -> fs.S3FileSystem:
    """Amazon's SDK finds the credentials; everything else comes from the variables of Amazon's tools."""
    return fs.S3FileSystem(
        region=region or default_region, endpoint_override=endpoint or general_endpoint, connect_timeout=_CONNECT_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        # A small object takes one request, and no empty object is visible before it.
        allow_delayed_open=True,
    )  # fmt: skip


def _webhdfs(authority: str) -> fs.FileSystem:
    """HDFS over HTTP, without Hadoop on this machine; as the user in HADOOP_USER_NAME, or else the process's user.
    Raises UsageError if the extra is not installed."""
    try:
        from fsspec.implementations.webhdfs import WebHDFS
    except ImportError as error:
        raise UsageError(
            f"webhdfs:// needs {error.name}, which is not installed", hint=install_command("hdfs")
        ) from None
    host, _, port = authority.partition(":")
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    system = WebHDFS(host, int(port or _WEBHDFS_PORT), user=user)
    process_info = system._process_info  # noqa: SLF001

    def with_time(info: dict[str, Any]) -> dict[str, Any]:
        """WebHDFS reports times under another name than the one that pyarrow looks for."""
        info["mtime"] = info["modificationTime"] / 1000
        process_info(info)
        return info

    system._process_info = with_time  # noqa: SLF001
    return fs.PyFileSystem(fs.FSSpecHandler(system))


def put(system: fs.FileSystem, path: str, data: bytes) -> None:
    """Write a complete file. In an object store it appears when it is closed; in HDFS it is renamed into place."""
    if "hdfs" not in system.type_name:
        with system.open_output_stream(path) as stream:
            stream.write(data)
        return
    made = f"{path}{UNFINISHED}"
    with system.open_output_stream(made) as stream:
        stream.write(data)
    if system.get_file_info(path).type != fs.FileType.NotFound:
        system.delete_file(path)
    system.move(made, path)


@contextmanager
def store_errors(path: object) -> Iterator[None]:
    """Failures of a store as KgmError: AuthenticationError, AuthorizationError, UnreachableError, MissingFileError
    for a bucket, UsageError for a missing library. FileNotFoundError is passed on unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise _translated(error, str(path)) from error


def _translated(error: BaseException, path: str) -> KgmError:
    text = " ".join(str(error).split())
    kind = next((kind for words, kind in _FAILURES if any(word in text.lower() for word in words)), KgmError)
    scheme = path.partition("://")[0]
    hint = None
    if kind in (AuthenticationError, AuthorizationError):
        hint = f"credentials are taken from: {_CREDENTIALS.get(scheme, 'the environment')}"
    elif kind is UnreachableError and scheme == "s3":
        hint = "check AWS_REGION, and AWS_ENDPOINT_URL for a store that is not Amazon's"
    elif kind is UsageError:
        hint = (
            "hdfs:// needs Hadoop on this machine (HADOOP_HOME with lib/native/libhdfs.so, JAVA_HOME, CLASSPATH); "
            "webhdfs://NAMENODE:PORT/PATH does not"
        )
    return kind(f"{path}: {text}", hint=hint)
