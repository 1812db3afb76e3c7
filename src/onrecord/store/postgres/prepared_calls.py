"""Call a prepared statement with parameters that are already bytes.

What psycopg does between `execute` and the socket (create a cursor, find the placeholders, choose a dumper and a type
for each parameter, look up the statement) takes as long as the server's own work for a small append. The one statement
that nearly every event passes through avoids it; everything else uses `execute`.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import errors, generators, pq

from onrecord.store.postgres.connection import Connection


class PreparedCall:
    """A statement that returns one value. It is prepared once on each connection."""

    def __init__(self, name: str, text: str, types: Sequence[int]) -> None:
        self.name = name.encode()
        self.text = text.encode()
        self.types = tuple(types)
        self.formats = (pq.Format.BINARY,) * len(self.types)

    def call(self, connection: Connection, values: Sequence[bytes | None]) -> bytes | None:
        if self.name not in connection.prepared:
            self._prepare(connection)
        try:
            return self._call(connection, values)
        except errors.InvalidSqlStatementName:
            # psycopg drops all statements of a connection after a rollback. Nothing was executed yet.
            self._prepare(connection)
            return self._call(connection, values)

    def _prepare(self, connection: Connection) -> None:
        connection.pgconn.send_prepare(self.name, self.text, self.types)
        _read_result(connection)
        connection.prepared.add(self.name)

    def _call(self, connection: Connection, values: Sequence[bytes | None]) -> bytes | None:
        connection.pgconn.send_query_prepared(self.name, values, self.formats, pq.Format.BINARY)
        return _read_result(connection).get_value(0, 0)


def _read_result(connection: Connection) -> pq.abc.PGresult:
    # The first result: after a server that closes the connection, libpq may add a message of its own.
    result: pq.abc.PGresult = connection.wait(generators.execute(connection.pgconn))[0]
    if result.status == pq.ExecStatus.FATAL_ERROR:
        raise errors.error_from_result(result)
    return result
