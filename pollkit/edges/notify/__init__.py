"""Notifications: programs that are run, and files that are appended to."""
