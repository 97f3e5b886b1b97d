"""Where a store's database is, how it is opened, and what its failures mean to a user."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import ConfigError, EdgebenchError, MissingError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.exc import SQLAlchemyError

_BUSY_TIMEOUT_S = 20.0


def parse(where: Path | str) -> URL:
    """The address in a file's path or an SQLAlchemy URL; raises ConfigError for any other database."""
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise ConfigError("the store's URL can't be read; write postgresql://user@host/database") from error
    if backend not in ("sqlite", "postgresql") or (backend == "sqlite" and not url.database):
        raise ConfigError(f"a store is a file or postgresql://user@host/database, not {readable(url)}")
    return url


def readable(url: URL) -> str:
    """The database's name for messages; never its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


def engine(url: URL, *, read_only: bool) -> Engine:
    """How to reach the database; nothing is opened yet. Raises MissingError when the PostgreSQL driver is absent."""
    return _sqlite_engine(url, read_only) if url.get_backend_name() == "sqlite" else _postgresql_engine(url)


def _sqlite_engine(url: URL, read_only: bool) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    path = Path(str(url.database))
    if read_only and not path.exists():
        raise ConfigError(f"{path} does not exist: there are no records to read")
    mode = "ro" if read_only else "rwc"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None
        )
        # With the default rollback journal the run stays one file that copies whole and reads from a read-only folder,
        # which a write-ahead log would not; FULL makes each commit wait for the disk.
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    # sqlite3 by itself begins a transaction only at the first write, which lets another process write after our reads.
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _postgresql_engine(url: URL) -> Engine:
    from sqlalchemy import create_engine

    try:
        return create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise MissingError(
            f"a PostgreSQL store needs the package '{error.name}': pip install '{error.name}'"
        ) from error


def told(error: SQLAlchemyError, name: str) -> EdgebenchError:
    """The database's failure in one line of ours."""
    cause = getattr(error, "orig", None) or error
    line = " ".join(str(cause).split())[:200]
    if not isinstance(cause, sqlite3.Error):
        return ConfigError(f"the database {name} failed: {line}; check its address, rights and tables")
    primary_code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if primary_code == sqlite3.SQLITE_FULL:
        return MissingError(f"no space left to write {name}: free some, then give the same command again")
    seen_and_next = {
        sqlite3.SQLITE_BUSY: "is locked by another process: wait for it to end, or end it",
        sqlite3.SQLITE_NOTADB: "is not an SQLite database: name an edgebench run, or a new file",
        sqlite3.SQLITE_CORRUPT: "is damaged: restore a copy, or measure into a new run",
        sqlite3.SQLITE_READONLY: "can't be written: check the rights of the file and its folder",
        sqlite3.SQLITE_CANTOPEN: "can't be opened: check that its folder exists and that you may write there",
        sqlite3.SQLITE_IOERR: f"could not be read or written ({line}): check the disk and its free space",
    }
    return ConfigError(f"{name} {seen_and_next.get(primary_code, f'failed: {line}')}")
