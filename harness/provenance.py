"""How a result came to be: machine, kernel, build, command. Unknown is null; no names of host or user."""

from __future__ import annotations

import os
import platform
import re
import resource
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ("numpy", "scipy", "simpy", "plotly", "click", "rich", "cython")
_CPU = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")


def collect(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Everything that a result should be read with.

    Parameters
    ----------
    arguments : sequence of str, optional
        Of the command `python -m harness`; without them there was no command.
    """
    return {name: _safely(take) for name, take in _SOURCES.items()} | {"command": _command(arguments)}


def elsewhere(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """The same of a result that was measured somewhere else: of the machine nothing is known."""
    return {name: None for name in _SOURCES} | {"command": _command(arguments)}


def _command(arguments: Sequence[str] | None) -> str | None:
    """The full command with these arguments; None where there was none."""
    return None if arguments is None else shlex.join(["python", "-m", "harness", *arguments])


def _safely(take: Callable[[], Any]) -> Any:
    """What take gives, or null where the system does not have it."""
    try:
        return take()
    except (OSError, ValueError, LookupError, subprocess.SubprocessError):
        return None


def _text(path: str | Path) -> str:
    return Path(path).read_text(errors="replace").strip()


def _cpuinfo(name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return found.group(1) if found else None


def _topology() -> dict[str, Any]:
    """Packages, cores and threads of the CPUs that are online."""
    packages, cores, threads = set(), set(), 0
    for folder in _CPU.glob("cpu[0-9]*/topology"):
        package = _text(folder / "physical_package_id")
        packages.add(package)
        cores.add((package, _text(folder / "core_id")))
        threads += 1
    return {"packages": len(packages), "cores": len(cores), "threads": threads}


def _tick() -> int | None:
    """The kernel's HZ, from its build configuration."""
    import gzip

    release = platform.release()
    for path in (
        Path("/proc/config.gz"),
        Path(f"/boot/config-{release}"),
        Path(f"/lib/modules/{release}/config"),
    ):
        if path.exists():
            text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else _text(path)
            found = re.search(r"^CONFIG_HZ=(\d+)$", text, re.MULTILINE)
            if found:
                return int(found.group(1))
    return None


def _mitigations() -> dict[str, str]:
    return {path.name: _text(path) for path in sorted((_CPU / "vulnerabilities").iterdir())}


def _hypervisor() -> str | None:
    """The hypervisor's vendor where one tells; "unnamed" where only its flag is there; null on bare metal."""
    flags = (_cpuinfo("flags") or "").split()
    if "hypervisor" not in flags:
        return None
    named = [
        _safely(partial(_text, path)) for path in ("/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor")
    ]
    return next((name for name in named if name), "unnamed")


def _quota() -> float | None:
    """CPUs that the control group allows; null where it does not limit them."""
    own = next((line[3:] for line in _text("/proc/self/cgroup").splitlines() if line.startswith("0::")), "/")
    for folder in (_CGROUP / own.strip("/"), _CGROUP):
        if (folder / "cpu.max").exists():
            quota, period = _text(folder / "cpu.max").split()
            return None if quota == "max" else int(quota) / int(period)
    quota = _text(_CGROUP / "cpu/cpu.cfs_quota_us")
    return None if quota == "-1" else int(quota) / int(_text(_CGROUP / "cpu/cpu.cfs_period_us"))


def _clock_cost() -> float:
    """Upper bound of one reading of the monotonic clock, s: best of a few loops, Python's call included."""

    def loop() -> int:
        begun = time.perf_counter_ns()
        for _ in repeat(None, 1000):
            time.monotonic_ns()
        return time.perf_counter_ns() - begun

    return min(loop() for _ in range(5)) * 1e-12


def _native_clock_cost() -> float:
    """Seconds that one reading of the clock costs the load generator."""
    from pyx import bench

    return float(bench.clock_cost())


def _limits() -> dict[str, Any]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "descriptors": {"soft": soft, "hard": hard},
        "somaxconn": int(_text("/proc/sys/net/core/somaxconn")),
        "local_ports": [int(word) for word in _text("/proc/sys/net/ipv4/ip_local_port_range").split()],
    }


def _compiler() -> dict[str, str] | None:
    """Compiler, version and flags of the native core, from the debugging information of the executable."""
    from pyx.server import EXECUTABLE

    # The compiler's note for our own sources names the standard that they are built with.
    found = re.search(rb"(GNU C\d+) ([\w.+-]+) ([ -~]*-std=gnu11[ -~]*)\x00", EXECUTABLE.read_bytes())
    if not found:
        return None
    language, version, flags = (part.decode() for part in found.groups())
    return {"compiler": "gcc", "language": language, "version": version, "flags": flags}


def _versions() -> dict[str, str | None]:
    def version(name: str) -> str | None:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    return {
        "kneepoint": version("kneepoint"),
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        **{name: version(name) for name in PACKAGES},
    }


def _git() -> dict[str, Any] | None:
    """Revision, and whether the working tree was as committed; null outside a checkout of ours."""
    if not (ROOT / ".git").exists():
        return None

    def git(*words: str) -> str:
        run = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return run.stdout.strip()

    return {"revision": git("rev-parse", "HEAD"), "clean": not git("status", "--porcelain")}


def _smt() -> bool:
    return _text(_CPU / "smt/active") == "1"


_SOURCES: dict[str, Callable[[], Any]] = {
    "cpu": lambda: _cpuinfo("model name"),
    "cpus": lambda: len(os.sched_getaffinity(0)),
    "topology": _topology,
    "smt": _smt,
    "mhz": lambda: float(_cpuinfo("cpu MHz") or "none"),
    "kernel": lambda: f"{platform.system()} {platform.release()}",
    "hz": _tick,
    "governor": lambda: _text(_CPU / "cpu0/cpufreq/scaling_governor"),
    "mitigations": _mitigations,
    "halt_polling_ns": lambda: int(_text("/sys/module/haltpoll/parameters/guest_halt_poll_ns")),
    "hypervisor": _hypervisor,
    "cgroup_cpus": _quota,
    "load_average": lambda: list(os.getloadavg()),
    "clocksource": lambda: _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    "clock_cost": _native_clock_cost,
    "clock_cost_at_most": _clock_cost,
    "limits": _limits,
    "build": _compiler,
    "versions": _versions,
    "git": _git,
}
