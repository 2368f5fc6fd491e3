"""Runs a load in a small native process of its own, kneepoint-load: one that forks must not fork this process."""

from __future__ import annotations

import mmap
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

EXECUTABLE = Path(__file__).with_name("kneepoint-load")


class IsolatedLoad:
    """A load's process, run once.

    Its keeper holds one end of a pipe whose other end is ours: when that closes, the load and every client that it
    has forked are killed, so nothing outlives this process, not even after SIGKILL.

    Parameters
    ----------
    service, load : str
        Names in the registry.
    options : mapping of str to str
        Settings; missing ones get their defaults.
    arguments : mapping of str to int or str
        Arguments of kneepoint-load by name, without their dashes; see pyx/csrc/main_load.c.
    shared : mapping of str to int
        Descriptors that it inherits, by the argument that names them.
    size : int
        Bytes of its result.
    executable : path, optional
        Another build of kneepoint-load, such as one with a sanitizer.

    Attributes
    ----------
    result : mmap
        What the load recorded (pyx/csrc/load/result.h); all zero before it has run.
    """

    def __init__(
        self,
        service: str,
        load: str,
        options: Mapping[str, str],
        arguments: Mapping[str, int | str],
        shared: Mapping[str, int],
        size: int,
        executable: Path | None = None,
    ) -> None:
        self._alive_read, self._alive = os.pipe2(os.O_CLOEXEC)
        self._memory = os.memfd_create("kneepoint-result", os.MFD_CLOEXEC)
        os.ftruncate(self._memory, size)
        self.result = mmap.mmap(self._memory, size)
        self._stopped = False
        inherited = {**shared, "result": self._memory, "alive": self._alive_read}
        self._inherited = tuple(inherited.values())
        self._words = [str(executable or EXECUTABLE), service, load]
        for name, value in {**arguments, **inherited}.items():
            self._words += [f"--{name}", str(value)]
        self._words += [f"{name}={value}" for name, value in options.items()]

    def run(self) -> str:
        """Blocks until the load has ended. The empty text when it succeeded, else one line for the user."""
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=self._inherited,
                process_group=0,
            )
        except OSError as error:
            return f"cannot start {self._words[0]}: {error.strerror}"
        with process:
            try:
                _, said = process.communicate()
            finally:
                self._let_go()
        if not process.returncode:
            return ""
        if self._stopped:
            return "the load was stopped"
        if process.returncode < 0:
            return f"kneepoint-load was killed by signal {-process.returncode}"
        said = said.strip().removeprefix("kneepoint-load: ")
        return said or f"kneepoint-load ended with status {process.returncode}"

    def stop(self) -> None:
        """Ends the load at once, from any thread; harmless when it has ended."""
        self._stopped = True
        self._let_go()

    def _let_go(self) -> None:
        held, self._alive = self._alive, -1
        if held >= 0:
            os.close(held)

    def __del__(self) -> None:
        self._let_go()
        os.close(self._alive_read)
        os.close(self._memory)
