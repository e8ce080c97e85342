"""The parts of scripts/test.py."""
