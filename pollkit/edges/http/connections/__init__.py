"""Connections: opened through proxies and TLS, used for one request at a time, kept in a pool."""
