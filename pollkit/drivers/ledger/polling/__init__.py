"""The jobs that this process polls for a run: their leases, outages and results."""
