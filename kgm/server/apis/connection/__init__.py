"""What a client asks right after it connects: the versions of the APIs. There is no authentication."""
