"""What a client asks when it has connected: the versions of the APIs. There is no authentication."""
