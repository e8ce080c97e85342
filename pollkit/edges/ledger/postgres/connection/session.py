"""One connection to PostgreSQL, whatever the driver."""

from typing import Any, List, Optional, Tuple

from .....errors import ConfigError

Row = Tuple[Any, ...]
SERVER_NOW = "extract(epoch FROM clock_timestamp())::float8"


class Session:
    """Executes statements on a connection of any driver.

    In a statement, `$now` is this instant in seconds since 1970, on the server's clock; a virtual
    clock replaces that, too.
    """

    def __init__(self, connection: Any, virtual_now: Optional[float]) -> None:
        self._connection = connection
        self._now = SERVER_NOW if virtual_now is None else "%r::float8" % virtual_now

    def query(self, statement: str, *values: object) -> List[Row]:
        """Execute a statement; its rows, none if it returns none."""
        cursor = self._connection.cursor()
        try:
            arguments = (values,) if values else ()
            cursor.execute(statement.replace("$now", self._now), *arguments)
            if cursor.description is None:
                return []
            return [tuple(row) for row in cursor.fetchall()]
        except UnicodeEncodeError as error:  # of an argument: stored values are text
            raise ConfigError("%.80r is not text" % error.object) from None
        finally:
            cursor.close()
