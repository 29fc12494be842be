"""The embedded coordinator for an application's test suite: consumers join it, and the tests restart them.

    from kgm.testing import QUICK_SETTINGS, serve_in_thread

    with serve_in_thread(topics={"orders": 6}, settings=QUICK_SETTINGS) as coordinator:
        start_consumers(bootstrap_servers=coordinator.bootstrap)
        coordinator.wait_until_stable("billing", members=2)

It is the server of `kgm serve`, running in a thread of the test process (kgm.server). pytest_plugin has fixtures for
pytest. Nothing is imported before it is used, because pytest loads the plugin in every run, even if no test uses a
fixture.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kgm.server import EmbeddedServer, GroupWatch, serve_in_thread

__all__ = ["QUICK_SETTINGS", "EmbeddedServer", "GroupWatch", "serve_in_thread"]

#: Broker settings that let groups form and rebalance within milliseconds, and allow short session timeouts. Everything
#: else has Kafka's defaults.
QUICK_SETTINGS: Final[Mapping[str, int]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 250,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        from kgm import server

        return getattr(server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
