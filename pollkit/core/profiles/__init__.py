"""Profiles: how an API is polled and its replies are understood, and the rules for their keys."""
