"""The version of kgm. It has a module of its own so that a low layer can name it without importing the API."""

__version__ = "0.1.0"
