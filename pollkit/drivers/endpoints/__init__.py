"""How the jobs of a profile are asked about: endpoints, lists, callables, results."""
