"""A server in the foreground of a process, until it gets a signal."""

import asyncio
import signal
from collections.abc import Callable, Mapping

from kgm.server.embedded.quiet_collections import QuietCollections
from kgm.server.embedded.server import Server, ServerOptions


def serve_forever(
    options: ServerOptions, *, on_listening: Callable[[Mapping[int, tuple[str, int]]], None]
) -> signal.Signals:
    """Serve until SIGTERM or SIGINT; returns which of the two it was. Call it in the main thread.

    on_listening: called with the address of each broker, once all of them accept connections. Raises UsageError for
    invalid topics and ports, and KgmError if an address is in use or the data directory cannot be used."""

    async def main() -> signal.Signals:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[signal.Signals] = loop.create_future()

        def stop(by: signal.Signals) -> None:
            if not stopped.done():
                stopped.set_result(by)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)
        server = Server(options)
        collections = QuietCollections(lambda: server.driver.requests)
        collections.start()  # what is loaded by now, modules and logs, stays
        try:
            await server.start()
            on_listening(server.addresses)
            return await stopped
        finally:
            await server.close()
            collections.stop()

    return asyncio.run(main())
