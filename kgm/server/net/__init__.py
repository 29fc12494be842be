"""Sockets and the event loop.

listener: accepts connections. connection: reads frames in order and limits what a client can use. turns: whose request
is served next. poller: which sockets are ready. event_loop: the clock, the timer, and the turns of the event loop that
runs the cluster."""
