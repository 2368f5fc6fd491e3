"""The source of a program: its syntax tree, where it stands, and what the names outside it mean."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import typing
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

from models.des.compiling.types import ProgramError

NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Text:
    """What is known of a function's text alone.

    Attributes
    ----------
    stores, loads : Counter
        How often each name is written and read.
    yields : bool
        It is a generator: it takes simulated time.
    """

    node: ast.FunctionDef
    file: str
    stores: Counter[str]
    loads: Counter[str]
    yields: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A function of a program."""

    function: FunctionType
    text: Text

    @classmethod
    def of(cls, function: FunctionType) -> Source:
        return cls(function, _text(function.__code__, function.__qualname__))

    def place(self, line: int) -> str:
        return f"{self.text.file}:{line}"

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        line = getattr(node, "lineno", self.text.node.lineno)
        raise ProgramError(f"{self.place(line)}: {message}")

    def outside(self, name: str) -> Any:
        """What a name means that the function does not set itself; KeyError when it means nothing."""
        closure = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
        if name in closure:
            return closure[name].cell_contents
        table = self.function.__globals__
        return table[name] if name in table else vars(builtins)[name]

    def hint(self, name: str) -> Any:
        """A parameter's annotation, or None when it does not resolve."""
        try:
            return typing.get_type_hints(self.function).get(name)
        except NameError:
            return None


@cache
def _text(code: CodeType, name: str) -> Text:
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError) as error:
        raise ProgramError(
            f"{name} has no source text to compile: define it with def, in a file or in a notebook cell"
        ) from error
    file = Path(code.co_filename).name
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise ProgramError(f"{file}:{first}: {name}: a program is a function made by def")
    if node.name != code.co_name:
        raise ProgramError(
            f"{file}:{first}: {name} stands elsewhere by now: the file has changed since it was imported"
        )
    ast.increment_lineno(node, first - 1)
    return _counted(node, file)


def _counted(node: ast.FunctionDef, file: str) -> Text:
    stores: Counter[str] = Counter()
    loads: Counter[str] = Counter()
    yields = False
    for part in (p for statement in node.body for p in ast.walk(statement)):
        if isinstance(part, NESTED):
            raise ProgramError(
                f"{file}:{part.lineno}: a program defines no functions or classes inside itself"
            )
        if isinstance(part, ast.Name):
            (loads if isinstance(part.ctx, ast.Load) else stores)[part.id] += 1
        if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
            stores[part.target.id] += 1  # it is never the only one
        yields = yields or isinstance(part, (ast.Yield, ast.YieldFrom))
    return Text(node, file, stores, loads, yields)
