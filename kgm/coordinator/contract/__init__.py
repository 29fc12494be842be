"""What the engine and its callers agree on: requests in, outcomes out, settings, topics, error responses."""
