"""Profiles by name: INI files, their keys, and the built-in ones."""
