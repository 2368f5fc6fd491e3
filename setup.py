"""Builds the native core once and links it into the Cython extensions and into each executable.

An executable is a file main*.c: main.c is kneepoint-server, main_NAME.c is kneepoint-NAME.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
CSRC = ROOT / "pyx" / "csrc"
FLAGS = [
    "-std=gnu11",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-pthread",
    "-fPIC",
    "-fvisibility=hidden",
]
SANITIZERS = {  # at -O1, which compiles in half the time
    "address": ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-O1", "-fsanitize=thread"],
}


def core_sources() -> list[Path]:
    """Every C file of the native core, found by folder; the executables' main*.c lie outside them."""
    return sorted(path for path in CSRC.glob("*/*.c"))


def executables() -> dict[str, Path]:
    """Name of each executable and the file with its main."""
    names = {path: path.stem.removeprefix("main").lstrip("_") for path in sorted(CSRC.glob("main*.c"))}
    return {f"kneepoint-{name or 'server'}": path for path, name in names.items()}


def compile_objects(compiler, sources: list[Path], folder: Path, flags: list[str]) -> list[str]:
    """Compiles what is older than its source or than any header, a file on each CPU; gives all object files."""
    headers = max(path.stat().st_mtime for path in CSRC.rglob("*.h"))

    def compiled(source: Path) -> str:
        target = (folder / source.relative_to(CSRC)).with_suffix(".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, headers):
            words = [*compiler.compiler[:1], *FLAGS, *flags, "-c", str(source), "-o", str(target)]
            subprocess.check_call(words)
        return str(target)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as side_by_side:
        return list(side_by_side.map(compiled, sources))


def link(compiler, objects: list[str], target: Path, flags: list[str]) -> None:
    """All symbols are looked up at the start: a forked process would look up those that it needs again each time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    subprocess.check_call(
        [
            *compiler.compiler[:1],
            *flags,
            "-pthread",
            "-Wl,-z,now",
            *objects,
            "-lm",
            "-o",
            str(partial),
        ]
    )
    os.replace(partial, target)


class BuildNative(build_ext):
    """The core, then the extensions with the core linked in, then the executables."""

    def build_extensions(self) -> None:
        folder = ROOT / self.build_temp / "core"
        core = compile_objects(self.compiler, core_sources(), folder, [])
        for extension in self.extensions:
            extension.extra_objects = core
            extension.depends = core
        super().build_extensions()
        self.programs = {
            name: core + compile_objects(self.compiler, [source], folder, [])
            for name, source in executables().items()
        }

    def run(self) -> None:
        super().run()
        package = ROOT / "pyx" if self.inplace else Path(self.build_lib) / "pyx"
        for name, objects in self.programs.items():
            link(self.compiler, objects, package / name, [])


class BuildProgram(Command):
    """An executable with a sanitizer, for the tests: build_program --program=kneepoint-server --sanitize=thread
    --output=build/tsan/server."""

    user_options: ClassVar = [
        ("program=", None, "name of the executable"),
        ("sanitize=", None, "address or thread"),
        ("output=", None, "path of the executable"),
    ]

    def initialize_options(self) -> None:
        self.program = "kneepoint-server"
        self.sanitize = None
        self.output = None

    def finalize_options(self) -> None:
        if self.sanitize not in SANITIZERS or self.program not in executables() or not self.output:
            raise SystemExit(
                f"build_program: --sanitize must be one of {', '.join(SANITIZERS)}, --program one of "
                f"{', '.join(executables())}, and --output a path"
            )

    def run(self) -> None:
        from setuptools._distutils.ccompiler import new_compiler
        from setuptools._distutils.sysconfig import customize_compiler

        compiler = new_compiler()
        customize_compiler(compiler)
        flags = SANITIZERS[self.sanitize]
        folder = ROOT / "build" / f"core-{self.sanitize}"
        objects = compile_objects(compiler, [*core_sources(), executables()[self.program]], folder, flags)
        link(compiler, objects, Path(self.output), flags)


def extensions() -> list[Extension]:
    from Cython.Build import cythonize

    modules = [
        Extension(
            f"pyx.{path.stem}", [str(path.relative_to(ROOT))], include_dirs=["pyx/csrc"], libraries=["m"]
        )
        for path in sorted((ROOT / "pyx").glob("*.pyx"))
    ]
    directives = {"language_level": 3, "show_performance_hints": False}
    return cythonize(modules, build_dir="build/cython", compiler_directives=directives, quiet=True)


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative, "build_program": BuildProgram})
