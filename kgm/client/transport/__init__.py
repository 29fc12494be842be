"""Connections to brokers: bootstrap, versions, deadlines, several brokers at the same time."""
