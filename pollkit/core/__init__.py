"""Decides. Pure: no clock, randomness, network, disk, threads or logging.

Time comes in as `now`, randomness as a number in [0, 1); decisions come out.
"""
