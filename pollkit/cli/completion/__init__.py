"""Completion scripts for shells, generated from the parsers of the commands."""
