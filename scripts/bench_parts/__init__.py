"""What the benchmarks of scripts/bench.py are made of."""
