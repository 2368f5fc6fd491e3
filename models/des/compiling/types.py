"""The static types of the programs' language: every value is one 64-bit word, or a few of them side by side."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Union, cast, get_args, get_origin

from models.des.records import Fifo, Record, Thread
from models.scenario import ScenarioError

ITEM_WIDTH = 4  # words of a fifo's item, at most


class ProgramError(ScenarioError):
    """A program is not in the subset of Python that can be compiled; the line says where, what, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar type, by name: int, float, bool, None or Thread."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class RecordType(Type):
    """Instances of one Record class, or None."""

    cls: type[Record]


@dataclass(frozen=True, slots=True)
class FifoType(Type):
    """A queue of items of so many words."""

    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """A list that keeps its length."""

    item: Type


INT, FLOAT, BOOL, NONE, THREAD = (Type(name) for name in ("int", "float", "bool", "None", "Thread"))
NUMBERS = (BOOL, INT, FLOAT)
SCALARS: dict[Any, Type] = {int: INT, float: FLOAT, bool: BOOL, Thread: THREAD, type(None): NONE}


def is_reference(kind: Type) -> bool:
    """A handle, which is 0 for None."""
    return kind in (NONE, THREAD) or isinstance(kind, (RecordType, FifoType, ListType))


def join(first: Type, second: Type) -> Type | None:
    """The type that holds values of both, if there is one."""
    if first == second:
        return first
    if first in NUMBERS and second in NUMBERS:
        return NUMBERS[max(NUMBERS.index(first), NUMBERS.index(second))]
    if first == NONE and is_reference(second):
        return second
    return first if second == NONE and is_reference(first) else None


def of_record(cls: type[Record]) -> RecordType:
    return RecordType(cls.__name__, cls)


def of_annotation(annotation: Any) -> Type:
    """The type that an annotation means; TypeError when it is none of the language's."""
    if annotation in SCALARS:
        return SCALARS[annotation]
    if inspect.isclass(annotation) and issubclass(annotation, Record):
        return of_record(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        rest = [a for a in arguments if a is not type(None)]
        if len(rest) == 1 and is_reference(kind := of_annotation(rest[0])):
            return kind
    elif origin is Fifo:
        items = get_args(arguments[0]) if get_origin(arguments[0]) is tuple else arguments
        if len(items) <= ITEM_WIDTH:
            return FifoType(_shown(annotation), tuple(_scalar(item) for item in items))
    elif origin is list:
        return ListType(_shown(annotation), _scalar(arguments[0]))
    elif inspect.isclass(origin) and issubclass(origin, Record):
        return of_record(origin)
    raise TypeError(_shown(annotation))


def _scalar(annotation: Any) -> Type:
    kind = of_annotation(annotation)
    if isinstance(kind, (FifoType, ListType)):
        raise TypeError(_shown(annotation))
    return kind


def _shown(annotation: Any) -> str:
    return (
        annotation.__name__ if inspect.isclass(annotation) and not get_args(annotation) else str(annotation)
    )


def fields(cls: type[Record]) -> Mapping[str, tuple[int, Type]]:
    """Of each field of a Record class, in order of annotation, its place and type.

    Raises
    ------
    ProgramError
        When a field has a type that records cannot hold, or an annotation does not resolve.
    """
    table: Mapping[str, tuple[int, Type]] = _fields(cast(Any, cls))
    return table


@cache
def _fields(cls: Any) -> Mapping[str, tuple[int, Type]]:
    where = f"{cls.__module__}.{cls.__qualname__}"
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise ProgramError(
            f"{where}: {error}: import what its annotations name at the top of the file"
        ) from error
    table: dict[str, tuple[int, Type]] = {}
    names = (name for base in reversed(cls.__mro__) for name in vars(base).get("__annotations__", {}))
    for name in dict.fromkeys(names):
        if get_origin(hints[name]) is ClassVar or hints[name] is ClassVar:
            continue
        try:
            table[name] = (len(table), of_annotation(hints[name]))
        except TypeError as error:
            raise ProgramError(
                f"{where}: field {name} is {error}: a field is an int, float, bool, Thread | None, a Record (| None), "
                f"Fifo[…] of up to {ITEM_WIDTH} of those, or list[…]"
            ) from error
    return types.MappingProxyType(table)
