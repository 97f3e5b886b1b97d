"""The store: every record, finished round and artifact of one run, in one SQLite file or one PostgreSQL database.

A value is kept as the JSON text of `edgebench.codec`; columns beside it (cell, status, model, ...) serve people who ask
in SQL. What a method wrote is on the disk when it returns, so that a `kill -9` loses nothing that was reported.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgebench import database
from edgebench.codec import from_json, to_json
from edgebench.errors import ConfigError, EdgebenchError
from edgebench.types import Artifact, Budget, Caution, Record, Round, Status

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

T = TypeVar("T")

# The first takes a database from schema version 1 to 2, and so on, inside the transaction that opens the store.
_MIGRATIONS: tuple[Callable[[Connection], None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What was asked as a whole. `command` is what the user typed, word by word; `model` and `data` as it names them.

    `cautions` are those that concern every cell: the calibration audit's, unused arrays, the baseline's.
    `budget` is None where no limit was set.
    """

    name: str
    command: tuple[str, ...]
    created_at: str  # UTC, ISO 8601
    model: str
    data: str | None = None
    cautions: tuple[Caution, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    budget: Budget | None = None


class Store:
    """One run's database; make it with `Store.open`. Threads may share it.

    Where the database fails, any method raises ConfigError, or MissingError when the disk is full.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._one_at_a_time = threading.Lock()

    @classmethod
    def open(cls, where: Path | str, *, read_only: bool = False) -> Store:
        """The store at a file's path or at a URL (`postgresql://user@host/database`); it is made when it is absent.

        One database holds one run; in PostgreSQL a schema does too (`?options=-csearch_path=NAME`). `read_only` never
        writes and refuses a database that has no records table yet.

        Raises:
            ConfigError: it is no edgebench store, from a newer edgebench, locked, damaged or can't be opened.
            MissingError: the PostgreSQL driver is not installed.
        """
        url = database.parse(where)
        store = cls(database.engine(url, read_only=read_only), database.readable(url))
        try:
            store._check_schema(read_only)
        except EdgebenchError:
            store.close()
            raise
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def set_run(self, run: RunInfo) -> None:
        """Keep what the run is; it takes the place of what was kept before."""
        with self._transaction() as connection:
            table = _tables().runs
            connection.execute(table.delete())
            connection.execute(table.insert().values(name=_storable(run.name), body=to_json(run)))

    def run(self) -> RunInfo | None:
        """What `set_run` kept last; None in a store of which nobody said what it is."""
        with self._transaction() as connection:
            body = connection.execute(_tables().runs.select()).mappings().first()
        return None if body is None else self._value(RunInfo, body["body"], "the run")

    def add(self, record: Record) -> None:
        """Append a record. A cell that is ok already keeps its record, and nothing is added."""
        with self._transaction() as connection:
            if _has_ok(connection, record.cell):
                return
            connection.execute(
                _tables()
                .records.insert()
                .values(
                    cell=record.cell,
                    status=record.status.value,
                    model=_storable(record.model),
                    recipe=None if record.recipe is None else _storable(record.recipe),
                    device=_storable(record.device),
                    runtime=record.runtime,
                    threads=record.threads,
                    batch=record.batch,
                    at=record.at,
                    body=to_json(record),
                )
            )

    def records(self) -> tuple[Record, ...]:
        """The latest record of each cell, in the order in which the cells were first asked."""
        from sqlalchemy import func, select

        table = _tables().records
        by_cell = (
            select(func.max(table.c.id).label("latest"), func.min(table.c.id).label("first"))
            .group_by(table.c.cell)
            .subquery()
        )
        query = (
            select(table.c.cell, table.c.body).join(by_cell, table.c.id == by_cell.c.latest).order_by(by_cell.c.first)
        )
        with self._transaction() as connection:
            found = connection.execute(query).all()
        return tuple(self._value(Record, body, f"the record of cell {cell}") for cell, body in found)

    def history(self, cell: str) -> tuple[Record, ...]:
        """Every record of a cell, oldest first: its failures, then the one that is ok."""
        from sqlalchemy import select

        table = _tables().records
        query = select(table.c.body).where(table.c.cell == cell).order_by(table.c.id)
        with self._transaction() as connection:
            bodies = connection.execute(query).scalars().all()
        return tuple(self._value(Record, body, f"a record of cell {cell}") for body in bodies)

    def has_ok(self, cell: str) -> bool:
        """Whether the cell has a record that went well, so that it need not be done again."""
        with self._transaction() as connection:
            return _has_ok(connection, cell)

    def add_round(self, cell: str, round_: Round) -> None:
        """Keep a finished round, so that an interrupted measurement goes on after it; one that is there stays."""
        with self._transaction() as connection:
            if not _has_round(connection, cell, round_.index):
                connection.execute(
                    _tables().rounds.insert().values(cell=cell, round=round_.index, body=to_json(round_))
                )

    def has_round(self, cell: str, index: int) -> bool:
        """Whether the round of that index was finished."""
        with self._transaction() as connection:
            return _has_round(connection, cell, index)

    def rounds(self, cell: str) -> tuple[Round, ...]:
        """The finished rounds of a cell, by index."""
        from sqlalchemy import select

        table = _tables().rounds
        query = select(table.c.body).where(table.c.cell == cell).order_by(table.c.round)
        with self._transaction() as connection:
            bodies = connection.execute(query).scalars().all()
        return tuple(self._value(Round, body, f"a round of cell {cell}") for body in bodies)

    def add_artifact(self, key: str, artifact: Artifact) -> None:
        """Keep a finished conversion under the hash of what was asked; made again, it takes the old one's place."""
        with self._transaction() as connection:
            table = _tables().artifacts
            connection.execute(table.delete().where(table.c.key == key))
            connection.execute(table.insert().values(key=key, sha256=artifact.sha256, body=to_json(artifact)))

    def artifact(self, key: str) -> Artifact | None:
        """What `add_artifact` kept under the hash; its files may be gone by now."""
        from sqlalchemy import select

        table = _tables().artifacts
        with self._transaction() as connection:
            body = connection.execute(select(table.c.body).where(table.c.key == key)).scalar()
        return None if body is None else self._value(Artifact, body, f"the artifact '{key}'")

    def _value(self, kind: type[T], body: str, what: str) -> T:
        try:
            return from_json(kind, body)
        except ValueError as error:
            line = " ".join(str(error).split())[:200]
            raise ConfigError(f"{self._name}: {what} is damaged or was made by another edgebench: {line}") from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._one_at_a_time, self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise database.told(error, self._name) from error

    def _check_schema(self, read_only: bool) -> None:
        """Make the tables of an empty database, migrate an older one, refuse what is not ours."""
        from sqlalchemy import inspect, select

        tables = _tables()
        ours = 1 + len(_MIGRATIONS)
        with self._transaction() as connection:
            names = set(inspect(connection).get_table_names())
            if not names:
                if read_only:
                    raise ConfigError(f"{self._name} is an empty database: it holds no records yet")
                tables.schema_version.metadata.create_all(connection)
                connection.execute(tables.schema_version.insert().values(version=ours))
                return
            version = None
            if tables.schema_version.name in names:
                version = connection.execute(select(tables.schema_version.c.version)).scalar()
            if version is None:
                raise ConfigError(
                    f"{self._name} is a database of something else (tables: {', '.join(sorted(names)[:5])}); "
                    "name an edgebench run, or a new file"
                )
            if version > ours:
                raise ConfigError(
                    f"{self._name} has schema version {version}; this edgebench knows up to {ours}: upgrade edgebench"
                )
            if version < ours and read_only:
                raise ConfigError(
                    f"{self._name} has the old schema version {version}: give its command again to migrate it to {ours}"
                )
            for migrate in _MIGRATIONS[version - 1 :]:
                migrate(connection)
            if version < ours:
                connection.execute(tables.schema_version.update().values(version=ours))


def _has_ok(connection: Connection, cell: str) -> bool:
    from sqlalchemy import select

    table = _tables().records
    query = select(table.c.id).where(table.c.cell == cell, table.c.status == Status.OK.value).limit(1)
    return connection.execute(query).first() is not None


def _has_round(connection: Connection, cell: str, index: int) -> bool:
    from sqlalchemy import select

    table = _tables().rounds
    query = select(table.c.round).where(table.c.cell == cell, table.c.round == index)
    return connection.execute(query).first() is not None


@dataclass(frozen=True, slots=True)
class _Tables:
    schema_version: Table
    runs: Table
    records: Table
    rounds: Table
    artifacts: Table


@cache
def _tables() -> _Tables:
    from sqlalchemy import Column, Index, Integer, MetaData, String, Table, Text, text

    metadata = MetaData()
    records = Table(
        "records",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("cell", String, nullable=False, index=True),
        Column("status", String, nullable=False),
        Column("model", String, nullable=False),
        Column("recipe", String),
        Column("device", String, nullable=False),
        Column("runtime", String, nullable=False),
        Column("threads", Integer, nullable=False),
        Column("batch", Integer),
        Column("at", String, nullable=False),
        Column("body", Text, nullable=False),
    )
    is_ok = text(f"status = '{Status.OK.value}'")
    Index("one_ok_record_per_cell", records.c.cell, unique=True, sqlite_where=is_ok, postgresql_where=is_ok)
    return _Tables(
        schema_version=Table("schema_version", metadata, Column("version", Integer, nullable=False)),
        runs=Table("runs", metadata, Column("name", String, nullable=False), Column("body", Text, nullable=False)),
        records=records,
        rounds=Table(
            "rounds",
            metadata,
            Column("cell", String, primary_key=True),
            Column("round", Integer, primary_key=True),
            Column("body", Text, nullable=False),
        ),
        artifacts=Table(
            "artifacts",
            metadata,
            Column("key", String, primary_key=True),
            Column("sha256", String, nullable=False),
            Column("body", Text, nullable=False),
        ),
    )


def _storable(text: str) -> str:
    """A text that any database takes as UTF-8 (file names may hold lone surrogates); the JSON body keeps it exactly."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "�")
