"""The parts of scripts/fuzz.py: how inputs are changed, and one module per target."""
