"""Polls the jobs of a ledger, and sends the notifications about them."""
