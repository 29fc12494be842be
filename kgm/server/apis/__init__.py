"""The APIs of a broker, one module for each family of requests."""
