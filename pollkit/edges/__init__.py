"""Touch the world: clock, network, files. Decide nothing about jobs."""
