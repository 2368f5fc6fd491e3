"""Builds the fuzz targets of tests/fuzz with libFuzzer, gives them seeds, runs them, and reads what they say.

    python tests/fuzzing.py SECONDS [TARGET-SERVICE …]

runs each target on each service for so long, shows how its coverage grows, and keeps the corpus and whatever
breaks in build/fuzz, where the next run goes on.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import wire

from pyx import registry
from pyx.server import Server

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
CSRC = ROOT / "pyx" / "csrc"
SANITIZERS = "address,undefined"
FLAGS = [
    "-std=gnu11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-UNDEBUG",
    "-pthread",
    "-fno-omit-frame-pointer",
    "-fno-sanitize-recover=all",
]
FLAGS += ["-I", str(CSRC)]
SEED_LIMIT = 1000
LIMITS = ["-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=64", "-print_final_stats=1"]


class Missing(Exception):
    """There is no clang here, or it has no libFuzzer."""


@dataclass
class Run:
    """How a target fared.

    Attributes
    ----------
    status : int
        Of its exit; 0 when nothing broke.
    coverage : list of (float, int, int)
        Seconds since the start, edges reached and inputs tried, each time that edges were added or counted.
    said : str
        All that it printed.
    """

    status: int = 0
    coverage: list[tuple[float, int, int]] = field(default_factory=list)
    said: str = ""

    @property
    def executed(self) -> int:
        found = re.search(r"stat::number_of_executed_units: (\d+)", self.said)
        return int(found[1]) if found else 0

    @property
    def edges(self) -> int:
        return self.coverage[-1][1] if self.coverage else 0


def targets() -> list[str]:
    return sorted(path.stem for path in SOURCES.glob("*.c"))


def cases() -> list[tuple[str, str]]:
    """Every target on every service that has that side."""
    rows = registry.services().items()
    return [
        (target, name) for target in targets() for name, row in rows if target != "requests" or row["serves"]
    ]


def compiler() -> str:
    found = shutil.which("clang")
    if not found:
        raise Missing("clang is not installed")
    BUILD.mkdir(parents=True, exist_ok=True)
    probe = [found, "-x", "c", "-fsanitize=fuzzer", "-", "-o", str(BUILD / "probe")]
    source = "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { (void)d, (void)n; return 0; }"
    if subprocess.run(probe, input=source, text=True, capture_output=True, check=False).returncode:
        raise Missing("clang has no libFuzzer (Debian: libclang-rt-dev or libclang-common-dev)")
    return found


def _object(clang: str, source: Path, newest: float) -> Path:
    """What is tested has sanitizers and counts its edges; what tests it has and does neither, and is faster."""
    ours = source.is_relative_to(SOURCES)
    target = BUILD / "objects" / source.relative_to(ROOT).with_suffix(".o")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, newest):
        flags = ["-O2"] if ours else [f"-fsanitize=fuzzer-no-link,{SANITIZERS}"]
        words = [clang, *FLAGS, *flags, "-c", source, "-o", target]
        subprocess.run([str(word) for word in words], check=True)
    return target


def build(names: Sequence[str] = (), extra: Path | None = None) -> dict[str, Path]:
    """The executable of each target, made anew where a source is newer.

    Parameters
    ----------
    names : sequence of str
        The targets; all, if there is none.
    extra : path
        An object to link in, with a further service; the executables then lie beside it.

    Raises
    ------
    Missing
    """
    clang = compiler()
    headers = [*CSRC.rglob("*.h"), *SOURCES.rglob("*.h"), Path(__file__)]
    newest = max(path.stat().st_mtime for path in headers)
    core = sorted([*CSRC.glob("core/*.c"), *CSRC.glob("services/*.c")])
    mains = [SOURCES / f"{name}.c" for name in names or targets()]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(lambda source: _object(clang, source, newest), [*core, *mains]))
    shared, mains = objects[: len(core)], objects[len(core) :]
    folder = extra.parent if extra else BUILD
    found = {}
    for main in mains:
        program = folder / main.stem
        words = [clang, *FLAGS, f"-fsanitize=fuzzer,{SANITIZERS}", "-Wl,--wrap=time", main, *shared]
        words += [*([extra] if extra else []), "-lm", "-o", program]
        made = max(path.stat().st_mtime for path in [main, *shared])
        if extra or not program.exists() or program.stat().st_mtime < made:
            subprocess.run([str(word) for word in words], check=True)
        found[main.stem] = program
    return found


def plain(message: bytes, *steering: int) -> bytes:
    """An input of the targets `requests` and `replies`: the bytes that steer, and the message."""
    return bytes([len(steering), *steering]) + message


def _recorded(service: str) -> bytes:
    """What a real server answers to everything that is written down for its service."""
    server = sorted(registry.servers())[0]
    with Server(service, server) as running, wire.connect(running.port) as peer:
        return b"".join(wire.exchange(peer, known.request, known.reply) for known in wire.EXCHANGES[service])


def _request_seeds(service: str) -> Iterator[bytes]:
    requests = [known.request for known in wire.EXCHANGES[service]]
    bad = [request for _, request in wire.REFUSED.get(service, ()) if len(request) <= SEED_LIMIT]
    for message in [*requests, b"".join(requests), wire.UNFINISHED[service], *bad]:
        yield plain(message)
    for choice in range(1, 4):  # each knob's other values
        yield plain(b"".join(requests), 0, 3, 7, 1, 20, 2, *[choice] * 8)
    yield plain(b"x" * 100, 255)


def _reply_seeds(service: str) -> Iterator[bytes]:
    for choice in range(4):  # our own server's replies, as they are and spoilt
        yield plain(b"", 8, 1, 2, 3, 4, *[choice] * 10)
        yield plain(bytes(40) + b"\1", 8, 1, 2, 3, 4, *[choice] * 10)
    replies = _recorded(service) if service in wire.EXCHANGES else b"+OK\n"
    for how in (0, 2, 4):
        yield plain(replies, how)
    for line in (b"/", b"show", b"7, 4294967295 9", b"\\x41", b"x"):
        yield plain(line + b"\n" + replies, 1)
        yield plain(line + b"\n" + struct.pack(">I", 3) + b"\1\0\7", 1)


def _setting_seeds(service: str) -> Iterator[bytes]:
    words = f"{service}\nselect\n"
    for knob in registry.services()[service]["knobs"]:
        values = [knob["default"], "", "-1", "1e999"]
        if knob["type"] != "text":
            values += (word + more for word in re.split(r"[:|]", knob["allowed"]) for more in ("", "1"))
        for value in values:
            yield f"{words}{knob['name']}={value}\n--port\n1\n\n".encode()
    yield f"{words}connection=per_request\n--host\nh\n".encode()
    yield f"{words}table=x\n\n1 2 3\n4 5 6\r\n".encode()


SEEDS: dict[str, Callable[[str], Iterator[bytes]]] = {
    "requests": _request_seeds,
    "replies": _reply_seeds,
    "settings": _setting_seeds,
}


def write_seeds(target: str, service: str, folder: Path) -> None:
    """Seeds from what the protocols' tests know, and every input that once broke something."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[target](service)):
        (folder / f"seed-{number:03}").write_bytes(seed)
    for path in sorted((SOURCES / "found" / target).glob(f"{service}-*")):
        shutil.copy(path, folder / path.name)


def run(
    program: Path,
    service: str,
    corpus: list[Path],
    folder: Path,
    *words: str,
    watch: Callable[[Run], None] = lambda _: None,
) -> Run:
    """Runs a target in a folder, where it leaves what breaks; `watch` sees each growth of the coverage.

    The first folder of the corpus takes the inputs that add coverage; words are libFuzzer's.
    """
    dictionary = SOURCES / "dictionaries" / service
    words = (*words, *([f"-dict={dictionary}"] if dictionary.exists() else []))
    command = [
        program,
        f"--service={service}",
        *LIMITS,
        f"-artifact_prefix={folder}/{program.stem}-{service}-",
    ]
    found, began = Run(), time.monotonic()
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=16"}
    process = subprocess.Popen(
        [str(word) for word in (*command, *words, *corpus)],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        assert process.stderr
        for line in process.stderr:
            found.said += line
            if seen := re.match(r"#(\d+)\s+\w+\s+cov: (\d+)", line):
                found.coverage.append((time.monotonic() - began, int(seen[2]), int(seen[1])))
                watch(found)
        found.status = process.wait()
    finally:
        process.kill()
        process.wait()
    return found


def _pulse(found: Run) -> None:
    """A line at 1, 2, 4 … seconds, with what is covered by then."""
    seconds, edges, inputs = found.coverage[-1]
    before = found.coverage[-2][0] if len(found.coverage) > 1 else 0.0
    if any(before < 2**power <= seconds for power in range(16)):
        print(f"  {seconds:8.0f} s {edges:8} edges {inputs:12} inputs", flush=True)


def main(words: list[str]) -> int:
    if not words or not words[0].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    try:
        programs = build()
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    broken = 0
    for target, service in cases():
        name = f"{target}-{service}"
        if words[1:] and name not in words[1:]:
            continue
        corpus, seeds = BUILD / "corpus" / name, BUILD / "seeds" / name
        write_seeds(target, service, seeds)
        corpus.mkdir(parents=True, exist_ok=True)
        print(name, flush=True)
        found = run(
            programs[target], service, [corpus, seeds], BUILD, f"-max_total_time={words[0]}", watch=_pulse
        )
        last = next((at for at, edges, _ in found.coverage if edges == found.edges), 0.0)
        print(f"  {found.edges} edges, the last after {last:.0f} s; {found.executed} inputs", flush=True)
        if found.status:
            broken += 1
            print(f"  broke with status {found.status}; the input is kept in {BUILD}\n{found.said[-4000:]}")
    return broken > 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
