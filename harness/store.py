"""The store of a sweep: one SQLite file that readers can follow while it is written, and that survives kills.

Every finished replicate and every prediction is committed by itself. A replicate is known by its cell, block
and kind of visit, so a resumed sweep can tell exactly what is missing. A failed one is kept with its message
until a later attempt replaces it.

Layout, by the schema version in `PRAGMA user_version`:

1 : meta, sessions, cells, blocks, replicates, as `_SCHEMA` has them.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.cell import Replicate
from harness.errors import HarnessError
from harness.plan import CELL, Plan, Visit
from models.metrics import Metrics
from models.scenario import Scenario

SCHEMA_VERSION = 1
APPLICATION_ID = 0x6B6E6565  # "knee"
BUSY_SECONDS = 10.0
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (session INTEGER PRIMARY KEY, started REAL NOT NULL, provenance TEXT NOT NULL,
    costs BLOB);
CREATE TABLE cells (key TEXT PRIMARY KEY, scenario TEXT NOT NULL, prediction TEXT, refusal TEXT)
    WITHOUT ROWID;
CREATE TABLE blocks (session INTEGER NOT NULL, block INTEGER NOT NULL, started REAL NOT NULL,
    yardstick REAL NOT NULL, PRIMARY KEY (session, block)) WITHOUT ROWID;
CREATE TABLE replicates (id TEXT PRIMARY KEY, key TEXT NOT NULL REFERENCES cells (key), kind TEXT NOT NULL,
    block INTEGER NOT NULL, session INTEGER NOT NULL, slot INTEGER NOT NULL, started REAL NOT NULL,
    record BLOB, error TEXT, UNIQUE (key, kind, block), CHECK ((record IS NULL) <> (error IS NULL)));
"""


class StoreError(HarnessError):
    """A store that cannot be opened, read or written."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A visit that could not be measured, and why."""

    kind: str
    key: str
    block: int
    message: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """A cell's prediction, or why there is none."""

    metrics: Metrics | None
    refusal: str | None


class Store:
    """A sweep's store, opened for reading, or for writing by this process alone.

    Use `open_store` or `create_store`. Closing it frees its lock, and so does the end of the process.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path = path
        self._db = connection
        self._lock = lock
        self.session = 0

    def close(self) -> None:
        """Closes the file, then frees the lock: closing any descriptor of a file drops SQLite's locks."""
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _translated(self.path), self._db:
            yield self._db

    def _read(self, query: str, *values: Any) -> list[Any]:
        with _translated(self.path), closing(self._db.execute(query, values)) as rows:
            return rows.fetchall()

    def meta(self, name: str) -> Any:
        """A stored fact as JSON has it; None when it is not there."""
        rows = self._read("SELECT value FROM meta WHERE name = ?", name)
        return json.loads(rows[0][0]) if rows else None

    def set_meta(self, name: str, value: Any) -> None:
        """Stores a fact, in place of what was known under its name."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def plan(self) -> Plan | None:
        """The sweep's plan; None when it was killed before that was stored."""
        document = self.meta("plan")
        return None if document is None else Plan.from_json(document)

    def set_plan(self, plan: Plan, sweep_id: str) -> None:
        """Stores the plan, all its cells, and the sweep's name if it has none."""
        cells = [*plan.cells()]
        scenarios = [cell.scenario for cell in cells] + [visit.scenario for visit in plan.visits(0)]
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('id', ?)", (json.dumps(sweep_id),))
            db.execute("INSERT OR REPLACE INTO meta VALUES ('plan', ?)", (json.dumps(plan.to_json()),))
            rows = [(scenario.key, json.dumps(scenario.to_json())) for scenario in scenarios]
            db.executemany("INSERT OR IGNORE INTO cells (key, scenario) VALUES (?, ?)", rows)

    def begin_session(self, started: float, provenance: Mapping[str, Any]) -> None:
        """Notes that measuring begins or goes on, and where."""
        with self._transaction() as db:
            row = (started, json.dumps(provenance))
            self.session = int(
                db.execute("INSERT INTO sessions (started, provenance) VALUES (?, ?)", row).lastrowid or 0
            )

    def set_costs(self, costs: Mapping[str, Any]) -> None:
        """Stores the costs that this session's predictions use."""
        with self._transaction() as db:
            db.execute("UPDATE sessions SET costs = ? WHERE session = ?", (_packed(costs), self.session))

    def costs(self, session: int) -> Any:
        """The costs that a session predicted with, as JSON has them; None if it predicted nothing."""
        rows = self._read("SELECT costs FROM sessions WHERE session = ? AND costs NOT NULL", session)
        return _unpacked(rows[0][0]) if rows else None

    def sessions(self) -> list[dict[str, Any]]:
        """Every session: number, start (Unix time, s), provenance."""
        rows = self._read("SELECT session, started, provenance FROM sessions ORDER BY session")
        return [
            {"session": n, "started": started, "provenance": json.loads(text)} for n, started, text in rows
        ]

    def set_prediction(self, scenario: Scenario, metrics: Metrics | None, refusal: str | None) -> None:
        """Stores a cell's prediction, or why there is none. Once the cell was measured it never changes."""
        text = None if metrics is None else json.dumps(metrics.to_json())
        with self._transaction() as db:
            db.execute(
                "UPDATE cells SET prediction = ?, refusal = ? WHERE key = ? AND prediction IS NULL "
                "AND NOT EXISTS (SELECT 1 FROM replicates r WHERE r.key = cells.key AND r.record NOT NULL)",
                (text, refusal, scenario.key),
            )

    def predictions(self) -> dict[str, Prediction]:
        """By key, for every cell that a prediction was tried for."""
        rows = self._read(
            "SELECT key, prediction, refusal FROM cells WHERE prediction NOT NULL OR refusal NOT NULL"
        )
        return {
            key: Prediction(None if text is None else Metrics.from_json(json.loads(text)), refusal)
            for key, text, refusal in rows
        }

    def add_block(self, block: int, started: float, yardstick: float) -> None:
        """Notes how long the yardstick took in a block, s; of several readings the longest is kept."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO blocks VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
                "SET yardstick = max(yardstick, excluded.yardstick)",
                (self.session, block, started, yardstick),
            )

    def blocks(self) -> list[dict[str, Any]]:
        """Every block of every session: session, block, started, yardstick (s)."""
        names = ("session", "block", "started", "yardstick")
        return [
            dict(zip(names, row, strict=True))
            for row in self._read("SELECT session, block, started, yardstick FROM blocks ORDER BY started")
        ]

    def add_replicate(self, visit: Visit, slot: int, replicate: Replicate) -> None:
        """Commits a finished replicate; it takes the place of a failed attempt, never of a finished one."""
        text = _packed(replicate.record)
        row = (
            replicate.id,
            visit.scenario.key,
            visit.kind,
            replicate.block,
            self.session,
            slot,
            replicate.started,
            text,
        )
        with self._transaction() as db:
            self._forget_failure(db, visit, replicate.block)
            db.execute("INSERT INTO replicates VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", row)

    def add_failure(
        self, visit: Visit, block: int, slot: int, attempt: str, started: float, message: str
    ) -> None:
        """Commits that an attempt failed, and why; attempt is an id that no other has."""
        row = (attempt, visit.scenario.key, visit.kind, block, self.session, slot, started, message)
        with self._transaction() as db:
            self._forget_failure(db, visit, block)
            db.execute("INSERT INTO replicates VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?)", row)

    @staticmethod
    def _forget_failure(db: sqlite3.Connection, visit: Visit, block: int) -> None:
        db.execute(
            "DELETE FROM replicates WHERE key = ? AND kind = ? AND block = ? AND record IS NULL",
            (visit.scenario.key, visit.kind, block),
        )

    def done(self) -> set[tuple[str, str, int]]:
        """(kind, key, block) of everything that is measured."""
        return set(self._read("SELECT kind, key, block FROM replicates WHERE record NOT NULL"))

    def replicates(self, kind: str = CELL) -> dict[str, list[tuple[int, Replicate]]]:
        """Measured replicates by cell, each with its session, in the order of their blocks."""
        rows = self._read(
            "SELECT key, session, id, started, block, record FROM replicates "
            "WHERE kind = ? AND record NOT NULL ORDER BY block",
            kind,
        )
        found: dict[str, list[tuple[int, Replicate]]] = {}
        for key, session, name, started, block, blob in rows:
            try:
                record = _unpacked(blob)
            except (zlib.error, ValueError) as error:
                raise StoreError(
                    f"{self.path}: replicate {name} is damaged ({error}); measure into another --out"
                ) from error
            found.setdefault(key, []).append((session, Replicate(name, started, block, record)))
        return found

    def failures(self) -> list[Failure]:
        """What failed and was not made good since."""
        rows = self._read(
            "SELECT kind, key, block, error FROM replicates WHERE error NOT NULL ORDER BY started"
        )
        return [Failure(*row) for row in rows]


def _packed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)


def _unpacked(blob: bytes) -> Any:
    return json.loads(zlib.decompress(blob))


def create_store(path: Path) -> Store:
    """A new store for writing; a file without content that a killed sweep left is taken over.

    Raises
    ------
    StoreError
        When the file is there already, or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}); choose another --out", usage=True
        ) from error
    try:
        if not is_blank(path):
            raise StoreError(
                f"{path}: is there already; give --resume to go on with it, or another --out", usage=True
            )
        with _translated(path):
            connection = _connect(path)
            pragmas = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
            connection.executescript(f"BEGIN; {pragmas} {_SCHEMA} COMMIT;")
            # After the schema, so that a sweep killed before leaves either nothing or everything.
            connection.execute("PRAGMA journal_mode = WAL")
        return Store(path, connection, lock)
    except BaseException:
        os.close(lock)
        raise


def open_store(path: Path, write: bool = False) -> Store:
    """A store that exists; for writing it is locked against every other sweep.

    Raises
    ------
    StoreError
        When it is not there, is no store, is of another version, or another sweep writes to it.
    """
    lock = None
    try:
        if not path.is_file():
            raise StoreError(
                f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; give a store", usage=True
            )
        if write:
            lock = _locked(path, os.O_RDWR)
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened ({error.strerror})", usage=True) from error
    try:
        with _translated(path):
            connection = _connect(path)
            _check(path, connection)
            if write:
                connection.execute("PRAGMA journal_mode = WAL")
        return Store(path, connection, lock)
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise


def is_blank(path: Path) -> bool:
    """Whether there is nothing to resume: no file, or one that a sweep killed at its very start left."""
    try:
        if not path.exists() or (path.is_file() and path.stat().st_size == 0):
            return True
        if not path.is_file():
            return False
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened ({error.strerror})", usage=True) from error
    with _translated(path), closing(_connect(path)) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return bool(tables == 0 and connection.execute("PRAGMA application_id").fetchone()[0] == 0)


def _locked(path: Path, flags: int) -> int:
    """A descriptor with the lock, which vanishes with the process. SQLite's locks are of another kind."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreError(
            f"{path}: another sweep writes to it; wait for it, or give another --out", usage=True
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level="IMMEDIATE")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _check(path: Path, connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StoreError(
            f"{path}: is a database, but not a store of kneepoint; give another file", usage=True
        )
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: has schema version {version}, this kneepoint knows {SCHEMA_VERSION}; "
            f"open it with the kneepoint that wrote it, or give another --out",
            usage=True,
        )


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's errors as one line for the user."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path}: {error}; what was committed is kept") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"{path}: is not a store of kneepoint, or is damaged ({error})", usage=True
        ) from error
