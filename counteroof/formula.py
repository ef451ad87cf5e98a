"""Formulas over a kernel's parameters, evaluated without ``eval``: the first thing a spec is made of."""

from __future__ import annotations

import ast
import math
import numbers
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from .errors import FormulaError

Number = int | float

MAX_TEXT = 1000
MAX_DEPTH = 100
MAX_EXPONENT = 1024
MAX_BITS = 256
"""Integers beyond this are refused; 2**256 is far beyond any count of bytes or FLOPs."""


def _divide(left: Number, right: Number) -> Number:
    """Divide; two integers that divide evenly stay an integer, so that no digit is lost."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def _power(left: Number, right: Number) -> Number:
    if abs(right) > MAX_EXPONENT:
        raise OverflowError(f"the exponent {right} is beyond {MAX_EXPONENT}")
    if isinstance(left, int) and isinstance(right, int) and right * left.bit_length() > MAX_BITS + right:
        raise OverflowError(f"{left}**{right} has more than {MAX_BITS} bits")
    result: Number | complex = left**right  # complex for a root of a negative number
    if isinstance(result, complex):
        raise ValueError(f"{left}**{right} is not a real number")
    return result


def _log2(value: Number) -> Number:
    if value <= 0:
        raise ValueError(f"log2 of {value}")
    if isinstance(value, int) and value & (value - 1) == 0:
        return value.bit_length() - 1
    return math.log2(value)


def _sqrt(value: Number) -> Number:
    if value < 0:
        raise ValueError(f"sqrt of {value}")
    if isinstance(value, int) and math.isqrt(value) ** 2 == value:
        return math.isqrt(value)
    return math.sqrt(value)


_OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_ONE_ARGUMENT: Mapping[str, Callable[[Number], Number]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": _log2,
    "sqrt": _sqrt,
}
_MANY_ARGUMENTS: Mapping[str, Callable[..., Number]] = {"min": min, "max": max}
FUNCTIONS = (*_MANY_ARGUMENTS, *_ONE_ARGUMENT)
"""Names a formula may call; a parameter cannot have one of them."""


@dataclass(frozen=True)
class Formula:
    """An arithmetic expression in a kernel's parameters, such as ``2*n**3``.

    It may use ``+ - * / // % **``, parentheses, numbers, parameter names and the functions ``min max ceil
    floor log2 sqrt``. Integers are exact: an even division, the log2 of a power of two and the root of a
    square stay integers.

    Raises
    ------
    FormulaError
        If the text is no such expression, is too long or nests too deeply.
    """

    text: str

    def __post_init__(self) -> None:
        _parse(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> frozenset[str]:
        """Parameters the formula needs."""
        return _names(self.text)

    def evaluate(self, params: Mapping[str, Number]) -> Number:
        """Return the value for these parameters.

        Raises
        ------
        FormulaError
            If a parameter is missing, the result is not a finite number, or a step grows out of bounds.
        """
        unknown = sorted(self.names - params.keys())
        if unknown:
            known = ", ".join(sorted(params)) or "none"
            raise FormulaError(
                f"formula {self.text!r} uses {', '.join(unknown)}; the parameters are: {known}"
            )
        try:
            return _evaluate(_parse(self.text), params)
        except (ArithmeticError, ValueError) as error:
            raise FormulaError(f"formula {self.text!r} has no value for {_show(params)}: {error}") from None

    def evaluate_whole(self, params: Mapping[str, Number]) -> int:
        """Return the value as an exact integer, and raise FormulaError if it is not one."""
        value = self.evaluate(params)
        if int(value) != value:
            raise FormulaError(
                f"formula {self.text!r} is {value} for {_show(params)}, not a whole number; "
                "use //, ceil or floor"
            )
        return int(value)


def _show(params: Mapping[str, Number]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "no parameters"


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    """Return the checked syntax tree of a formula."""
    if not isinstance(text, str):
        raise FormulaError(f"a formula is a text, not {text!r}")
    if len(text) > MAX_TEXT:
        raise FormulaError(f"a formula has at most {MAX_TEXT} characters, this one has {len(text)}")
    if not text.isascii():
        raise FormulaError(f"formula {text!r} has characters outside ASCII")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "1if" and the like only warn; they are refused below
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise FormulaError(f"formula {text!r} is not an expression ({reason})") from None
    _check(tree, text, 0)
    return tree


@lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    tree = _parse(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called
    )


def _check(node: ast.expr, text: str, depth: int) -> None:
    """Refuse every construct that is not plain arithmetic."""
    if depth > MAX_DEPTH:
        raise FormulaError(f"formula {text!r} nests deeper than {MAX_DEPTH} levels")
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _check(left, text, depth + 1)
            _check(right, text, depth + 1)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            _check(operand, text, depth + 1)
        case ast.Constant(value=constant) if type(constant) in (int, float):
            try:
                _bounded(cast(Number, constant))
            except ArithmeticError as error:
                raise FormulaError(f"formula {text!r}: {error}") from None
        case ast.Name(id=name) if name not in FUNCTIONS:
            pass
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            if name in _ONE_ARGUMENT and len(args) != 1:
                raise FormulaError(f"formula {text!r}: {name} takes one argument, not {len(args)}")
            if name in _MANY_ARGUMENTS and len(args) < 2:
                raise FormulaError(f"formula {text!r}: {name} takes at least two arguments, not {len(args)}")
            for argument in args:
                _check(argument, text, depth + 1)
        case _:
            raise FormulaError(
                f"formula {text!r}: {_quote(node)} is not allowed; use numbers, parameters, + - * / // % **, "
                f"parentheses and {', '.join(FUNCTIONS)}"
            )


def _quote(node: ast.expr) -> str:
    try:
        return repr(ast.unparse(node))
    except (ValueError, RecursionError):
        return type(node).__name__


def _evaluate(node: ast.expr, params: Mapping[str, Number]) -> Number:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            value = _OPERATORS[type(op)](_evaluate(left, params), _evaluate(right, params))
        case ast.UnaryOp(op=sign, operand=operand):
            value = _UNARY[type(sign)](_evaluate(operand, params))
        case ast.Constant(value=constant):
            value = cast(Number, constant)  # _check let no other constant through
        case ast.Name(id=name):
            given = params[name]
            value = int(given) if isinstance(given, numbers.Integral) else float(given)
        case ast.Call(func=ast.Name(id=name), args=args):
            function = _ONE_ARGUMENT.get(name) or _MANY_ARGUMENTS[name]
            value = function(*(_evaluate(argument, params) for argument in args))
        case _:  # _check let nothing else through
            raise FormulaError(f"{type(node).__name__} is not arithmetic")
    return _bounded(value)


def _bounded(value: Number) -> Number:
    """Return the number itself if it is finite and of bearable size."""
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise OverflowError(f"a number has more than {MAX_BITS} bits")
    elif not math.isfinite(value):
        raise OverflowError("a number is not finite")
    return value
