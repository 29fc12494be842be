"""Sockets and the event loop.

listener: connections, which read frames in order and bound what a client may use. event_loop: the clock, the timer, and
the turns of the loop in which the cluster works."""
