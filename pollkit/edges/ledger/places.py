"""The places at which a ledger can be. No other imports: most commands need only this."""

DATABASE_SCHEMES = ("postgresql://", "postgres://")


def is_database(place: object) -> bool:
    """Whether a place is the URL of a database, not the path of a file."""
    return isinstance(place, str) and place.startswith(DATABASE_SCHEMES)
