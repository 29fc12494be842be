"""Metrics over HTTP, for Prometheus to scrape.

A scrape gets the latest collection and asks nothing of the cluster, so that scrapers cannot put load on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from prometheus_client import CollectorRegistry, start_http_server

from kgm.model.errors import UsageError
from kgm.operations.export.families import CollectionMetrics

if TYPE_CHECKING:
    from kgm.operations.export.collector import Collection


class MetricsListener:
    """Serves /metrics until the end of the `with` block. `latest` is what it shows; nothing before the first."""

    def __init__(self, host: str, port: int, *, max_series: int) -> None:
        self.latest: Collection | None = None
        self._registry = CollectorRegistry()
        self._registry.register(CollectionMetrics(lambda: self.latest, max_series=max_series))
        self._host, self._port = host, port

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        return self._host, self._port

    def __enter__(self) -> Self:
        """Raises UsageError for an address that cannot be listened on."""
        try:
            self._server, self._thread = start_http_server(self._port, self._host, self._registry)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"--listen {self._host}:{self._port}: {reason}") from error
        self._port = self._server.server_port
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
