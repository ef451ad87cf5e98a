"""Frozen dataclasses to JSON and back: the types are the schema, and every mistake is reported at once.

Reading takes the annotations of a dataclass as its schema: a missing key, an unknown key, a value of the
wrong type or a number that is not finite becomes a :class:`~counteroof.errors.Problem` with its path. Writing
refuses NaN and infinity, which JSON does not have, and naming the path beats a file that nothing can read.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from . import files
from .errors import BadInput, Problem

T = TypeVar("T")


class _Invalid:
    """Stands for a value whose mistakes are already on the list."""


_INVALID = _Invalid()


def to_json(value: object, where: str = "") -> Any:
    """Return ``value`` as dictionaries, lists, strings, numbers, booleans and ``None``.

    Raises
    ------
    ValueError
        For NaN, infinity or a type that has no JSON form; the text has the path.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where or 'the value'} is {value}; only finite numbers are written")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_json(getattr(value, field.name), _join(where, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(item, _join(where, str(key))) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [to_json(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise ValueError(f"{where or 'the value'} has the type {type(value).__name__}, which JSON cannot hold")


def from_json(kind: type[T], data: object, where: str, problems: list[Problem]) -> T | None:
    """Return ``data`` as an instance of ``kind``, or ``None`` after adding its mistakes to ``problems``."""
    before = len(problems)
    value = _read(kind, data, where, problems)
    return None if len(problems) > before else typing.cast(T, value)


def _read(kind: Any, data: object, where: str, problems: list[Problem]) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return data
    if origin in (Union, types.UnionType):
        return _read_union(typing.get_args(kind), data, where, problems)
    if origin is Literal:
        choices = typing.get_args(kind)
        if data in choices and isinstance(data, str):
            return data
        return _wrong(where, data, "one of " + ", ".join(repr(choice) for choice in choices), problems)
    if origin is tuple:
        item_kind = typing.get_args(kind)
        if not isinstance(data, list):
            return _wrong(where, data, "a list", problems)
        if len(item_kind) == 2 and item_kind[1] is Ellipsis:
            return tuple(_read(item_kind[0], item, f"{where}[{i}]", problems) for i, item in enumerate(data))
        if len(data) != len(item_kind):
            return _wrong(where, data, f"a list of {len(item_kind)}", problems)
        pairs = zip(item_kind, data, strict=True)
        return tuple(_read(one, item, f"{where}[{i}]", problems) for i, (one, item) in enumerate(pairs))
    if origin in (dict, Mapping):
        if not isinstance(data, dict):
            return _wrong(where, data, "an object", problems)
        value_kind = typing.get_args(kind)[1]
        return {key: _read(value_kind, item, _join(where, key), problems) for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, data, where, problems)
    return _read_scalar(kind, data, where, problems)


def _read_union(kinds: tuple[Any, ...], data: object, where: str, problems: list[Problem]) -> Any:
    if data is None and type(None) in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not type(None))
    if len(kinds) == 1:
        return _read(kinds[0], data, where, problems)
    # an integer stays an integer where both are allowed, so that counts survive exactly
    for kind in sorted(kinds, key=lambda kind: kind is float):
        attempt: list[Problem] = []
        value = _read(kind, data, where, attempt)
        if not attempt:
            return value
    return _wrong(where, data, " or ".join(_name(kind) for kind in kinds), problems)


def _read_scalar(kind: Any, data: object, where: str, problems: list[Problem]) -> Any:
    if kind is bool and isinstance(data, bool):
        return data
    if kind is str and isinstance(data, str):
        return data
    if kind is int and isinstance(data, int) and not isinstance(data, bool):
        return data
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
        if _finite(data):
            return float(data)
        return _wrong(where, data, "a finite number", problems)
    return _wrong(where, data, _name(kind), problems)


def _read_dataclass(kind: Any, data: object, where: str, problems: list[Problem]) -> Any:
    if not isinstance(data, dict):
        return _wrong(where, data, "an object", problems)
    before = len(problems)
    hints = _hints(kind)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = _read(
                hints[field.name], data[field.name], _join(where, field.name), problems
            )
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            problems.append(Problem(_join(where, field.name), "nothing", _name(hints[field.name])))
    for key in data:
        if key not in hints:
            known = ", ".join(hints)
            problems.append(Problem(_join(where, key), "a key nobody knows", f"one of {known}"))
    if len(problems) > before:
        return _INVALID
    try:
        return kind(**values)
    except ValueError as error:  # what the type itself refuses, such as a missing count without a reason
        problems.append(Problem(where, str(error), f"a consistent {kind.__name__}"))
        return _INVALID


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the range of a double
        return False


def _wrong(where: str, data: object, expected: str, problems: list[Problem]) -> _Invalid:
    problems.append(Problem(where, shown(data), expected))
    return _INVALID


def shown(data: object) -> str:
    """Return a value from a file as an error message shows it: short, and with its type plain."""
    if data is None:
        return "null"
    if isinstance(data, dict):
        return "an object"
    if isinstance(data, list):
        return f"a list of {len(data)}"
    text = json.dumps(data) if isinstance(data, str | bool | int | float) else repr(data)
    return text if len(text) <= 60 else text[:57] + "..."


def _name(kind: Any) -> str:
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false", type(None): "null"}
    if kind in names:
        return names[kind]
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_name(one) for one in typing.get_args(kind))
    if origin is tuple:
        return "a list"
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(kind))
    return "an object"


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def read_file(path: Path, what: str) -> object:
    """Return the content of a JSON file.

    Raises
    ------
    BadInput
        If the file cannot be read or is not JSON (NaN and Infinity, which Python would accept, are not).
    """

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not JSON")

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInput(f"{what} {path} cannot be read: {reason}") from error
    try:
        return json.loads(text, parse_constant=refuse, parse_float=_parse_float)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{what} {path} is not JSON: {error}") from error


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond the range of a double")
    return value


def write_file(path: Path, data: object) -> None:
    """Write JSON so that ``path`` holds either its old content or all of the new, even across Ctrl-C."""
    files.write_text(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
