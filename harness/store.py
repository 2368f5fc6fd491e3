"""The store of a sweep: one SQLite file that readers can follow while it is written, and that survives kills.

Every finished replicate and every prediction is committed by itself. A replicate is known by its cell, block
and kind of visit, so a resumed sweep can tell exactly what is missing. A failed one is kept with its message
until a later attempt replaces it. The file's layout and versions are in harness.store_file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.cell import Replicate
from harness.plan import CELL, Plan, Visit
from harness.store_file import (
    APPLICATION_ID,
    SCHEMA,
    SCHEMA_VERSION,
    StoreError,
    check,
    connect,
    is_blank,
    locked,
    seal,
    translated,
    upgrade,
)
from models.metrics import Finding, Mark, Metrics
from models.scenario import Scenario, ScenarioError

__all__ = ["SCHEMA_VERSION", "Store", "StoreError", "create_store", "is_blank", "open_store"]


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a cell was judged when its sweep ended.

    Attributes
    ----------
    judged : float
        Unix time, s.
    limits : mapping of str to float
        The thresholds that were used.
    broken, findings : tuple
        What was found.
    """

    judged: float
    limits: Mapping[str, float]
    broken: tuple[Mark, ...]
    findings: tuple[Finding, ...]


class Store:
    """A sweep's store, opened for reading, or for writing by this process alone.

    Use `open_store` or `create_store`. Closing it frees its lock, and so does the end of the process.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path = path
        self._db = connection
        self._lock = lock
        self.session = 0
        connection.create_function("now", 1, lambda key: self._renamed.get(key, key), deterministic=True)

    @cached_property
    def _renamed(self) -> dict[str, str]:
        """The present key of every cell that was stored before its parts had all the knobs that they have now."""
        found = {}
        for key, text in self._read("SELECT key, scenario FROM cells"):
            with suppress(ScenarioError):  # of parts or knobs that are no more: nothing asks for it
                if (present := Scenario.from_json(json.loads(text)).key) != key:
                    found[key] = present
        return found

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
        with translated(self.path), self._db:
            yield self._db

    def _read(self, query: str, *values: Any) -> list[Any]:
        with translated(self.path), closing(self._db.execute(query, values)) as rows:
            return rows.fetchall()

    def meta(self, name: str) -> Any:
        """A stored fact as JSON has it; None when it is not there."""
        rows = self._read("SELECT value FROM meta WHERE name = ?", name)
        try:
            return json.loads(rows[0][0]) if rows else None
        except ValueError as error:
            raise self._damaged(name, error) from error

    def _damaged(self, name: str, error: Exception) -> StoreError:
        return StoreError(f"{self.path}: {name} is damaged ({error}); measure into another --out")

    def set_meta(self, name: str, value: Any) -> None:
        """Stores a fact, in place of what was known under its name."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def plan(self) -> Plan | None:
        """The sweep's plan; None when it was killed before that was stored."""
        document = self.meta("plan")
        try:
            return None if document is None else Plan.from_json(document)
        except (KeyError, TypeError) as error:
            raise self._damaged("plan", error) from error

    def set_plan(self, plan: Plan, sweep_id: str) -> None:
        """Stores the plan, all its cells, and the sweep's name if it has none."""
        scenarios = [cell.scenario for cell in plan.cells()] + [visit.scenario for visit in plan.visits(0)]
        self.set_cells("plan", plan.to_json(), scenarios, sweep_id)

    def set_cells(self, name: str, asked: Any, scenarios: Sequence[Scenario], store_id: str) -> None:
        """Stores what was asked for as a fact, the scenarios it needs, and the store's name if it has none."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('id', ?)", (json.dumps(store_id),))
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(asked)))
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
                "AND NOT EXISTS (SELECT 1 FROM replicates r WHERE now(r.key) = cells.key AND r.record NOT NULL)",
                (text, refusal, scenario.key),
            )

    def predictions(self) -> dict[str, Prediction]:
        """By key, for every cell that a prediction was tried for."""
        rows = self._read(
            "SELECT now(key), prediction, refusal FROM cells WHERE prediction NOT NULL OR refusal NOT NULL"
        )
        return {
            key: Prediction(None if text is None else Metrics.from_json(json.loads(text)), refusal)
            for key, text, refusal in rows
        }

    def seal(self) -> None:
        """Has the file itself refuse every later change of a prediction."""
        with self._transaction() as db:
            seal(db)

    def predictions_digest(self) -> str:
        """SHA-256 of all scenarios with their predictions and refusals, as they stand in the file."""
        rows = self._read("SELECT key, scenario, prediction, refusal FROM cells ORDER BY key")
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

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
            "DELETE FROM replicates WHERE now(key) = ? AND kind = ? AND block = ? AND record IS NULL",
            (visit.scenario.key, visit.kind, block),
        )

    def done(self) -> set[tuple[str, str, int]]:
        """(kind, key, block) of everything that is measured."""
        return set(self._read("SELECT kind, now(key), block FROM replicates WHERE record NOT NULL"))

    def replicates(self, kind: str = CELL) -> dict[str, list[tuple[int, Replicate]]]:
        """Measured replicates by cell, each with its session, in the order of their blocks."""
        rows = self._read(
            "SELECT now(key), session, id, started, block, record FROM replicates "
            "WHERE kind = ? AND record NOT NULL ORDER BY block",
            kind,
        )
        found: dict[str, list[tuple[int, Replicate]]] = {}
        for key, session, name, started, block, blob in rows:
            try:
                record = _unpacked(blob)
            except (zlib.error, ValueError) as error:
                raise self._damaged(f"replicate {name}", error) from error
            found.setdefault(key, []).append((session, Replicate(name, started, block, record)))
        return found

    def failures(self) -> list[Failure]:
        """What failed and was not made good since."""
        rows = self._read(
            "SELECT kind, now(key), block, error FROM replicates WHERE error NOT NULL ORDER BY started"
        )
        return [Failure(*row) for row in rows]

    def set_verdicts(
        self,
        judged: float,
        limits: Mapping[str, float],
        verdicts: Mapping[str, tuple[Sequence[Any], Sequence[Any]]],
    ) -> None:
        """Stores the marks and findings (as JSON has them) of each cell; later verdicts replace earlier ones.

        Parameters
        ----------
        judged : float
            Unix time, s.
        limits : mapping of str to float
            The thresholds that were used.
        verdicts : mapping of str to (marks, findings)
            By the cell's key.
        """
        used = json.dumps(limits)
        rows = [
            (key, judged, used, json.dumps(marks), json.dumps(found))
            for key, (marks, found) in verdicts.items()
        ]
        with self._transaction() as db:
            db.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?)", rows)

    def verdicts(self) -> dict[str, Verdict]:
        """By key, how each cell was judged last; nothing in a store from before verdicts were kept."""
        if not self._read("SELECT 1 FROM sqlite_master WHERE name = 'verdicts'"):
            return {}
        rows = self._read("SELECT now(key), judged, limits, marks, findings FROM verdicts ORDER BY judged")
        return {
            key: Verdict(
                judged,
                json.loads(limits),
                tuple(Mark.from_json(row) for row in json.loads(broken)),
                tuple(Finding.from_json(row) for row in json.loads(found)),
            )
            for key, judged, limits, broken, found in rows
        }


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
        lock = locked(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}); choose another --out", usage=True
        ) from error
    try:
        if not is_blank(path):
            raise StoreError(
                f"{path}: is there already; give --resume to go on with it, or another --out", usage=True
            )
        with translated(path):
            connection = connect(path)
            pragmas = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
            connection.executescript(f"BEGIN; {pragmas} {SCHEMA} COMMIT;")
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
            lock = locked(path, os.O_RDWR)
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened ({error.strerror})", usage=True) from error
    try:
        with translated(path):
            connection = connect(path)
            check(path, connection)
            if write:
                connection.execute("PRAGMA journal_mode = WAL")
                upgrade(connection)
        return Store(path, connection, lock)
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise
