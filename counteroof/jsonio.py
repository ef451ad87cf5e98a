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
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from . import files
from .errors import BadInput, Problem

T = TypeVar("T")


_DIGITS = 308
"""Digits of an integer that always fit the range of a double."""


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


Where = str | tuple[Any, str | int]
"""A place in the data: a text, or the place it is in and its key or index there; made a text on a mistake."""

Reader = Callable[[object, Where, list[Problem]], Any]
"""Returns a value of one kind, or adds mistakes to the list; made once for each kind."""


def from_json(kind: type[T], data: object, where: str, problems: list[Problem]) -> T | None:
    """Return ``data`` as an instance of ``kind``, or ``None`` after adding its mistakes to ``problems``."""
    before = len(problems)
    value = _reader(typing.cast(Any, kind))(data, where, problems)
    return None if len(problems) > before else typing.cast(T, value)


@cache
def _reader(kind: Any) -> Reader:
    """Return the reader of a kind."""
    if kind is Any:
        return lambda data, where, problems: data
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _union_reader(parts)
    if origin is Literal:
        return _choice_reader(parts)
    if origin is tuple:
        return _tuple_reader(parts)
    if origin in (dict, Mapping):
        return _mapping_reader(parts[1])
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(kind)
    return _scalar_reader(kind)


def _choice_reader(choices: tuple[Any, ...]) -> Reader:
    expected = "one of " + ", ".join(repr(choice) for choice in choices)

    def read(data: object, where: Where, problems: list[Problem]) -> Any:
        if isinstance(data, str) and data in choices:
            return data
        return _wrong(where, data, expected, problems)

    return read


def _tuple_reader(kinds: tuple[Any, ...]) -> Reader:
    readers = [_reader(kind) for kind in kinds if kind is not Ellipsis]
    many = len(kinds) == 2 and kinds[1] is Ellipsis

    def read(data: object, where: Where, problems: list[Problem]) -> Any:
        if not isinstance(data, list):
            return _wrong(where, data, "a list", problems)
        if many:
            one = readers[0]
            return tuple([one(item, (where, i), problems) for i, item in enumerate(data)])
        if len(data) != len(readers):
            return _wrong(where, data, f"a list of {len(readers)}", problems)
        pairs = enumerate(zip(readers, data, strict=True))
        return tuple([reader(item, (where, i), problems) for i, (reader, item) in pairs])

    return read


def _mapping_reader(kind: Any) -> Reader:
    reader = _reader(kind)

    def read(data: object, where: Where, problems: list[Problem]) -> Any:
        if not isinstance(data, dict):
            return _wrong(where, data, "an object", problems)
        return {key: reader(item, (where, key), problems) for key, item in data.items()}

    return read


def _union_reader(kinds: tuple[Any, ...]) -> Reader:
    none = type(None) in kinds
    # an integer stays an integer where both are allowed, so that counts survive exactly
    some = sorted((kind for kind in kinds if kind is not type(None)), key=lambda kind: kind is float)
    readers = [_reader(kind) for kind in some]
    expected = " or ".join(_name(kind) for kind in kinds if kind is not type(None))

    def read(data: object, where: Where, problems: list[Problem]) -> Any:
        if data is None and none:
            return None
        if len(readers) == 1:
            return readers[0](data, where, problems)
        for reader in readers:
            attempt: list[Problem] = []
            value = reader(data, where, attempt)
            if not attempt:
                return value
        return _wrong(where, data, expected, problems)

    return read


def _scalar_reader(kind: Any) -> Reader:
    def read(data: object, where: Where, problems: list[Problem]) -> Any:
        if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
            if _finite(data):
                return float(data)
            return _wrong(where, data, "a finite number", problems)
        # of these types JSON has no subtypes but one: true and false are no integers
        if kind in (bool, str, int) and type(data) is kind:
            return data
        return _wrong(where, data, _name(kind), problems)

    return read


def _dataclass_reader(kind: Any) -> Reader:
    fields = dataclasses.fields(kind)
    hints = typing.get_type_hints(kind)
    readers = [(field.name, _reader(hints[field.name])) for field in fields]
    required = {
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def read(data: object, where: Where, problems: list[Problem]) -> Any:
        if not isinstance(data, dict):
            return _wrong(where, data, "an object", problems)
        before = len(problems)
        values: dict[str, Any] = {}
        for name, reader in readers:
            if name in data:
                values[name] = reader(data[name], (where, name), problems)
            elif name in required:
                problems.append(Problem(_text((where, name)), "nothing", _name(hints[name])))
        if len(values) < len(data):
            known = ", ".join(hints)
            unknown = (key for key in data if key not in hints)
            problems += [
                Problem(_text((where, key)), "a key nobody knows", f"one of {known}") for key in unknown
            ]
        if len(problems) > before:
            return _INVALID
        try:
            return kind(**values)
        except ValueError as error:  # what the type itself refuses, such as a missing count without a reason
            problems.append(Problem(_text(where), str(error), f"a consistent {kind.__name__}"))
            return _INVALID

    return read


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the range of a double
        return False


def _wrong(where: Where, data: object, expected: str, problems: list[Problem]) -> _Invalid:
    problems.append(Problem(_text(where), shown(data), expected))
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


def _text(where: Where) -> str:
    """Return a place as a text, such as ``kernels[3].label``."""
    if isinstance(where, str):
        return where
    outer, key = where
    return f"{_text(outer)}[{key}]" if isinstance(key, int) else _join(_text(outer), key)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


_EXPECTED = "expected a file of JSON that counteroof wrote, or the folder with it"


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
        if isinstance(error, UnicodeDecodeError):
            reason = f"found a byte that is not UTF-8 at offset {error.start}"
        else:
            reason = error.strerror or str(error)
        raise BadInput(f"{what} {path} cannot be read: {reason}; {_EXPECTED}") from error
    try:
        return json.loads(text, parse_constant=refuse, parse_float=_parse_float, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{what} {path} is not JSON: {error}; {_EXPECTED}") from error


def _parse_int(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"an integer of {len(text)} digits is beyond the range of a double")
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond the range of a double")
    return value


def write_file(path: Path, data: object) -> None:
    """Write JSON so that ``path`` holds either its old content or all of the new, even across Ctrl-C."""
    files.write_text(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
