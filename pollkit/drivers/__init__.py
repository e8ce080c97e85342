"""Loop, and decide nothing: what to do next, core says."""
