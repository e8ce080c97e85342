"""How a wait ends: confirmed, cancelled, at its deadline, or after its result was fetched."""
