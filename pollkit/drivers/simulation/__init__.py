"""Simulation: paces compared in virtual time, beside the theoretical optimum."""
