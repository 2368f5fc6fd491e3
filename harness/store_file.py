"""The file under a sweep's store: its schema and versions, its lock, and SQLite's errors in words.

Layout, by the schema version in `PRAGMA user_version`:

1 : meta, sessions, cells, blocks, replicates, as `SCHEMA` has them.
2 : verdicts: marks and findings of each cell as they were judged when a sweep ended, and with which limits.

A store of version 1 is read as it is, and brought to version 2 when it is opened for writing.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from harness.errors import HarnessError

SCHEMA_VERSION = 2
OLDEST_VERSION = 1
APPLICATION_ID = 0x6B6E6565  # "knee"
BUSY_SECONDS = 10.0
_VERDICTS = """
CREATE TABLE verdicts (key TEXT PRIMARY KEY REFERENCES cells (key), judged REAL NOT NULL, limits TEXT NOT NULL,
    marks TEXT NOT NULL, findings TEXT NOT NULL) WITHOUT ROWID;
"""
_FIRST = """
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
SCHEMA = _FIRST + _VERDICTS


class StoreError(HarnessError):
    """A store that cannot be opened, read or written."""


def is_blank(path: Path) -> bool:
    """Whether there is nothing to resume: no file, or one that a sweep killed at its very start left."""
    try:
        if not path.exists() or (path.is_file() and path.stat().st_size == 0):
            return True
        if not path.is_file():
            return False
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened ({error.strerror})", usage=True) from error
    with translated(path), closing(connect(path)) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return bool(tables == 0 and connection.execute("PRAGMA application_id").fetchone()[0] == 0)


def locked(path: Path, flags: int) -> int:
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


def connect(path: Path) -> sqlite3.Connection:
    """The database, every commit of it safe on the disk before it is done."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level="IMMEDIATE")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def check(path: Path, connection: sqlite3.Connection) -> None:
    """StoreError unless the database is a store of a version that is known."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StoreError(
            f"{path}: is a database, but not a store of kneepoint; give another file", usage=True
        )
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise StoreError(
            f"{path}: has schema version {version}, this kneepoint knows {SCHEMA_VERSION}; "
            f"open it with the kneepoint that wrote it, or give another --out",
            usage=True,
        )


def upgrade(connection: sqlite3.Connection) -> None:
    """Brings an older store to this version, in one transaction."""
    if connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION:
        connection.executescript(f"BEGIN; {_VERDICTS} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


def seal(connection: sqlite3.Connection) -> None:
    """Has the file itself refuse every later change of its cells and their predictions."""
    for change in ("UPDATE", "DELETE", "INSERT"):
        connection.execute(
            f"CREATE TRIGGER IF NOT EXISTS no_{change} BEFORE {change} ON cells "
            "BEGIN SELECT RAISE(ABORT, 'its predictions are sealed'); END"
        )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as one line for the user."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path}: {error}; what was committed is kept") from error
    except sqlite3.IntegrityError as error:
        raise StoreError(f"{path}: refused, as {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"{path}: is not a store of kneepoint, or is damaged ({error})", usage=True
        ) from error
