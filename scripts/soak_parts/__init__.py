"""The servers of scripts/soak.py."""
