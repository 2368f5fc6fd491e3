"""Starts and stops native servers, each a small process of its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from pyx.counters import CounterPage
from pyx.errors import NativeError

EXECUTABLE = Path(__file__).with_name("kneepoint-server")
START_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0


class ServerError(NativeError):
    """A server did not start or died."""


class Server:
    """A running server process; use it as a context manager, or call stop.

    The process holds one end of a pipe whose other end is ours, and ends when that closes: it cannot outlive this
    process, not even after SIGKILL.

    Parameters
    ----------
    service, server : str
        Names in the registry.
    options : mapping of str to str
        Settings; missing ones get their defaults.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    executable : path
        Another build of kneepoint-server, such as one with a sanitizer.
    """

    def __init__(
        self,
        service: str,
        server: str,
        options: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        executable: Path | None = None,
    ) -> None:
        self.host = host
        self.page = CounterPage()
        alive_read, self._alive = os.pipe2(os.O_CLOEXEC)
        words = [str(executable or EXECUTABLE), service, server, "--host", host, "--port", str(port)]
        words += ["--counters", str(self.page.fd), "--alive", str(alive_read)]
        words += [f"{name}={value}" for name, value in (options or {}).items()]
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(self.page.fd, alive_read),
                process_group=0,
            )
        except OSError as error:
            self._release()
            raise ServerError(f"cannot start {words[0]}: {error.strerror}") from error
        finally:
            os.close(alive_read)
        try:
            self.port = self._await_port()
        except BaseException:
            self.kill()
            raise

    def _await_port(self) -> int:
        assert self.process.stdout is not None and self.process.stderr is not None
        waiting = select.poll()  # select.select refuses descriptors above 1023
        waiting.register(self.process.stdout, select.POLLIN)
        readable = waiting.poll(START_TIMEOUT * 1000)
        line = self.process.stdout.readline().decode() if readable else ""
        if line.startswith("listening on "):
            return int(line.rsplit(":", 1)[1])
        if readable:
            message = self.process.stderr.read().decode().strip().removeprefix("kneepoint-server: ")
            status = self.process.wait()
            raise ServerError(message or f"the server ended at once with status {status}", usage=status == 2)
        raise ServerError(f"the server did not listen within {START_TIMEOUT:.0f} s")

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def counters(self):  # type: ignore[no-untyped-def]
        """Live structured array, one row for each thread that the server has had."""
        return self.page.blocks

    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> int:
        """SIGTERM, then SIGKILL after five seconds. Returns the exit status."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_TIMEOUT
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.001)
        self.kill()
        return self.process.returncode

    def kill(self) -> None:
        """Ends the process at once and frees everything; harmless when it has ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self._release()

    def _release(self) -> None:
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1
        self.page.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
