"""Sockets and the event loop.

listener: accepts connections. connection: reads frames in order and bounds what a client may use. turns: whose request
is served next. poller: which sockets are ready. event_loop: the clock, the timer, and the turns of the loop in which
the cluster works."""
