"""Runs somebody's server command under a keeper: nothing of it is left behind, however this process ends."""

from __future__ import annotations

import mmap
import os
import select
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pyx.errors import NativeError

EXECUTABLE = Path(__file__).with_name("kneepoint-keeper")
START_TIMEOUT = 10.0
GRACE = 5.0
KILL_TIMEOUT = 10.0
RING = 16384
_HEAD = struct.Struct("=Qii")  # struct page of main_keeper.c: bytes written, whether it ended, its status


class KeeperError(NativeError):
    """A command could not be run, or not be ended."""


class Keeper:
    """A running command; use it as a context manager, or call stop.

    The keeper is a small process in a session of its own. When this process ends, also by SIGKILL, the
    command and all that it started, daemons included, is ended: SIGTERM first, and SIGKILL for what is left
    after the grace. The command has no standard input, and a process group of its own; what it writes is
    read at once and the last 16 KiB of it are kept. Processes that it has others start for it (a container
    engine, an init system) are not its descendants, and out of reach.

    Parameters
    ----------
    words : sequence of str
        The program, looked for on PATH, and its arguments. No shell reads them.
    env : mapping of str to str, optional
        The command's environment; None: this process's.
    cwd : path, optional
        Folder that it runs in; None: this process's.
    grace : float
        Seconds between SIGTERM and SIGKILL.
    executable : path, optional
        Another build of kneepoint-keeper, such as one with a sanitizer.

    Attributes
    ----------
    pid : int
        The command's main process.
    tree : int
        Root of all that the command started, for `pyx.sampling` and `pyx.load.Load`: unlike `pid` it also
        leads to daemons, whose parents have ended. Negative: the keeper itself is not counted.

    Raises
    ------
    KeeperError
        When the command cannot be run.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        grace: float = GRACE,
        executable: Path | None = None,
    ) -> None:
        if not words or not words[0]:
            raise KeeperError("the command is empty; give a program and its arguments", True)
        self._grace = grace
        self._page: mmap.mmap | bytes = bytes(_HEAD.size + RING)
        page = os.memfd_create("kneepoint-keeper")
        alive_read, self._alive = os.pipe2(os.O_CLOEXEC)
        try:
            os.ftruncate(page, _HEAD.size + RING)
            self._page = mmap.mmap(page, _HEAD.size + RING)
            self._process = subprocess.Popen(
                [str(executable or EXECUTABLE), str(alive_read), str(page), f"{grace:.3f}", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(page, alive_read),
                start_new_session=True,
                env=env,
                cwd=cwd,
            )
        except (OSError, ValueError) as error:
            self._release()
            raise KeeperError(_refusal(error, words[0], cwd), cwd is not None) from error
        finally:
            os.close(alive_read)
            os.close(page)
        try:
            self.pid = self._await_start(words[0])
        except BaseException:
            self._end()
            raise
        self.tree = -self._process.pid

    def _await_start(self, name: str) -> int:
        assert self._process.stdout is not None and self._process.stderr is not None
        if not select.select([self._process.stdout], [], [], START_TIMEOUT)[0]:
            raise KeeperError(f"{name}: was not executed within {START_TIMEOUT:.0f} s")
        line = self._process.stdout.readline().decode()
        if line.startswith("running "):
            return int(line.split()[1])
        message = self._process.stderr.read().decode(errors="replace").strip()
        status = self._process.wait()
        raise KeeperError(message.removeprefix("kneepoint-keeper: "), usage=status == 2)

    def alive(self) -> bool:
        """Whether the command serves on: its main process runs, or ended well and left a daemon."""
        return self._process.poll() is None and not self.status()

    def status(self) -> int | None:
        """Exit status of the main process, negative for the signal that killed it; None while it runs."""
        _, ended, status = _HEAD.unpack_from(self._page)
        return os.waitstatus_to_exitcode(status) if ended else None

    def output(self) -> str:
        """The last 16 KiB that the command wrote to its standard output and error, together."""
        written = _HEAD.unpack_from(self._page)[0]
        ring = bytes(self._page[_HEAD.size :])
        at = written % RING
        return (ring[at:] + ring[:at] if written > RING else ring[:written]).decode(errors="replace")

    def stop(self) -> None:
        """Ends the command and all that it started. Harmless when that has happened.

        Raises
        ------
        KeeperError
            When something cannot be ended: another user's, or one that waits for a device.
        """
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                self._await_end()
        finally:
            self._end()

    def _await_end(self) -> None:
        """The keeper's standard output closes when it ends; waiting for that has no delay, unlike Popen.wait."""
        assert self._process.stdout is not None
        limit = self._grace + KILL_TIMEOUT
        if not select.select([self._process.stdout], [], [], limit)[0]:
            raise KeeperError(
                f"process {self.pid} or one that it started could not be ended in {limit:.0f} s"
            )
        self._process.wait()

    def _end(self) -> None:
        """Lets go of everything: a keeper that is still there goes on ending the command."""
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._release()

    def _release(self) -> None:
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1
        if isinstance(self._page, mmap.mmap):
            last = self._page[:]
            self._page.close()
            self._page = last

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _refusal(error: Exception, name: str, cwd: str | Path | None) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    if isinstance(error, OSError) and cwd is not None and error.filename == str(cwd):
        return f"{cwd}: cannot run a command in this folder: {reason}"
    return f"cannot run {name}: {reason}"
