"""The commands that fill, poll, show and maintain ledgers."""
