"""Sweeps in processes of their own, to be killed, and what they leave behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parent.parent


class Sweep:
    """Starts sweeps into one store; every process of theirs carries a mark in its environment."""

    def __init__(self, path, words):
        self.path, self.words = path, words
        self.mark = f"KNEEPOINT_TEST={uuid.uuid4().hex}"

    def start(self, *words):
        name, value = self.mark.split("=")
        return subprocess.Popen(
            [sys.executable, "-m", "harness", "sweep", *self.words, "--out", str(self.path), *words],
            cwd=ROOT,
            env={**os.environ, name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self):
        """What is committed: (kind, key, block) to (id, started)."""
        if not self.path.exists() or not self.path.stat().st_size:
            return {}
        with closing(sqlite3.connect(self.path)) as db:
            try:
                found = db.execute(
                    "SELECT kind, key, block, id, started FROM replicates WHERE record NOT NULL"
                ).fetchall()
            except sqlite3.OperationalError:  # killed before the schema was there
                return {}
        rows = {tuple(row[:3]): tuple(row[3:]) for row in found}
        assert len(rows) == len(found), "a replicate was stored twice"
        return rows

    def processes(self, name=""):
        """Live processes that a sweep of ours started, or the sweep itself."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                marked = self.mark.encode() in (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_text()
            except OSError:
                continue
            if marked and name in command:
                found.append(int(folder.name))
        return found

    def await_rows(self, more_than, process, seconds=60.0):
        deadline = time.monotonic() + seconds
        while len(self.rows()) <= more_than and process.poll() is None:
            assert time.monotonic() < deadline, process.communicate()
            time.sleep(0.005)

    def await_no_processes(self, seconds=20.0):
        deadline = time.monotonic() + seconds
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert self.processes() == []

    def clean_up(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
