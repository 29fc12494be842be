"""The version of kgm. It has its own module so that a low layer can use it without importing the API."""

__version__ = "0.1.0"
