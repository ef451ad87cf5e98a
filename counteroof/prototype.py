"""Signatures from C text: one prototype, or all those of a header.

The text is cut into declarations first, without compiler extensions and function bodies, and each declaration
is parsed by itself with pycparser. So one that is beyond the parser costs only itself, not the whole header.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .declarations import declarations
from .errors import LibraryError
from .signature import VOID, CType, Param, Signature, array_of, decayed, function_type, pointer_to

_KEYWORDS = frozenset((
    "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "__int128", "_Bool",
    "_Complex", "const", "volatile", "struct", "union", "enum", "typedef", "extern", "static", "sizeof",
))  # fmt: skip


def _integer(size: int, signed: bool, text: str) -> CType:
    return CType("int", size, signed, text=text)


def _known_types() -> dict[str, CType]:
    """Types a prototype may name without any header, for 64-bit Linux."""
    known = {}
    for bits in (8, 16, 32, 64):
        for letter, signed in (("", True), ("u", False)):
            for middle in ("", "_least"):
                name = f"{letter}int{middle}{bits}_t"
                known[name] = _integer(bits // 8, signed, name)
            name = f"{letter}int_fast{bits}_t"
            known[name] = _integer(1 if bits == 8 else 8, signed, name)
    for name in ("size_t", "uintptr_t", "uintmax_t", "ulong"):
        known[name] = _integer(8, False, name)
    for name in ("ssize_t", "ptrdiff_t", "intptr_t", "intmax_t", "off_t", "off64_t", "time_t"):
        known[name] = _integer(8, True, name)
    for name, size, signed in (
        ("uint", 4, False), ("ushort", 2, False), ("uchar", 1, False), ("wchar_t", 4, True),
        ("char16_t", 2, False), ("char32_t", 4, False),
    ):  # fmt: skip
        known[name] = _integer(size, signed, name)
    for name, size in (("_Float16", 2), ("__fp16", 2), ("_Float32", 4), ("_Float64", 8), ("_Float32x", 8),
                       ("_Float64x", 16), ("_Float128", 16), ("__float128", 16)):  # fmt: skip
        known[name] = CType("float", size, True, text=name)
    for name in ("va_list", "__builtin_va_list", "__gnuc_va_list"):
        known[name] = CType("unknown", text=name)
    known["FILE"] = CType("struct", text="FILE")
    return known


KNOWN_TYPES: Mapping[str, CType] = _known_types()


def parse_prototype(text: str) -> Signature:
    """Return the signature a C prototype declares.

    ``restrict``, ``extern "C"``, attributes and a missing semicolon are accepted; an unknown type may be
    pointed to, but not passed by value.

    Raises
    ------
    LibraryError
        With the prototype and what is wrong in it.
    """
    found = list(declarations(text.replace("&", " * ")))
    if len(found) != 1:
        count = f"{len(found)} declarations" if found else "nothing"
        raise LibraryError(f"signature {text.strip()!r}: found {count}; expected one C prototype")
    tokens = found[0]
    scope = _Scope()
    for name in _unknown_type_names(tokens, scope):
        scope.types[name] = CType("unknown", text=name)
    try:
        parsed = scope.functions(tokens)
    except _Unparsable as error:
        raise LibraryError(
            f"signature {text.strip()!r} is not a C prototype ({error}); expected something like "
            '"void axpy(size_t n, double a, const double *x, double *y)"'
        ) from None
    if len(parsed) != 1:
        raise LibraryError(f"signature {text.strip()!r} declares no function; expected a C prototype")
    return parsed[0]


def header_signatures(
    path: str | os.PathLike[str], *, cflags: Sequence[str] = (), only: str | None = None
) -> dict[str, Signature]:
    """Return the signatures of the functions a C header declares, by name.

    The header goes through the C preprocessor when a compiler is there; without one its conditional parts are
    all read and its macros stay as they are.

    Parameters
    ----------
    cflags
        Flags for the preprocessor; those that it does not need are left out.
    only
        Parse the prototype of this function alone, which is much quicker in a large header.
    """
    path = Path(path)
    text = _preprocessed(path, cflags)
    scope = _Scope()
    found: dict[str, Signature] = {}
    for tokens in declarations(text):
        if tokens[0] == "static" or (tokens[0] != "typedef" and only is not None and only not in tokens):
            continue
        for attempt in (tokens, _without_macro(tokens)):
            try:
                for signature in scope.functions(attempt):
                    found.setdefault(signature.name, signature)
                break
            except _Unparsable:
                continue
    return {name: replace(signature, source="header") for name, signature in found.items()}


def _preprocessed(path: Path, cflags: Sequence[str]) -> str:
    from .build import find_compiler

    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise LibraryError(f"header {path}: cannot be read ({error.strerror or error})") from None
    compiler = find_compiler("c")
    if compiler is None:
        return text
    flags = [
        flag for flag in cflags if flag.startswith(("-I", "-D", "-U", "-std=", "-isystem", "-include", "-m"))
    ]
    command = [*compiler, "-E", "-P", "-x", "c", *flags, str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LibraryError(f"header {path}: the preprocessor cannot be run ({error})") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise LibraryError(f"header {path}: the preprocessor stopped: " + "\n".join(lines[:5]))
    return done.stdout


class _Unparsable(Exception):
    """One declaration is beyond the parser; the text says where."""


def _without_macro(tokens: list[str]) -> list[str]:
    """Drop a leading word in capitals: without a preprocessor, ``API int f(void)`` still has its macro."""
    return tokens[1:] if len(tokens) > 2 and re.fullmatch(r"[A-Z][A-Z0-9_]*", tokens[0]) else tokens


def _unknown_type_names(tokens: Sequence[str], scope: _Scope) -> Iterator[str]:
    """Yield unknown names that stand where a type must stand: first in the whole or in a parameter."""
    depth, fresh = 0, True
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token in ("const", "volatile", "extern", "static"):
            continue
        unknown = re.match(r"[A-Za-z_]", token) and token not in _KEYWORDS and token not in scope.types
        if fresh and unknown and re.match(r"[A-Za-z_*),]", following):
            yield token
        depth += (token in "([") - (token in ")]")
        fresh = token in ("(", ",") and depth > 0 and following not in ("*", ")")


class _Scope:
    """The type names met so far, and the parser that turns one declaration into signatures."""

    def __init__(self) -> None:
        from pycparser import c_ast, c_parser

        self.ast: Any = c_ast
        self.error: type[Exception] = c_parser.ParseError
        self.parser = c_parser.CParser()
        self.types = dict(KNOWN_TYPES)

    def functions(self, tokens: Sequence[str]) -> list[Signature]:
        """Return the functions a declaration declares; its typedefs are remembered."""
        names = sorted({token for token in tokens if token in self.types})
        text = "".join(f"typedef int {name};" for name in names if not _redefines(tokens, name))
        try:
            tree = self.parser.parse(f"{text}\n{' '.join(tokens)};")
        except (self.error, AssertionError, RecursionError) as error:
            raise _Unparsable(re.sub(r"^:?\d+:\d+:\s*", "", str(error)) or "it ends too early") from None
        found = []
        for node in tree.ext[len(names) - sum(_redefines(tokens, name) for name in names) :]:
            if isinstance(node, self.ast.Typedef):
                self.types[node.name] = self._named(self.ctype(node.type), node.name)
            elif isinstance(node, self.ast.Decl) and isinstance(node.type, self.ast.FuncDecl):
                found.append(self._signature(node.name, node.type))
        return found

    @staticmethod
    def _named(ctype: CType, name: str) -> CType:
        """Return the type a typedef names; its text is the name, as the author will write it."""
        return replace(ctype, text=f"const {name}" if ctype.const and ctype.kind != "pointer" else name)

    def _signature(self, name: str, node: Any) -> Signature:
        params = [
            child for child in (node.args.params if node.args else []) if not isinstance(child, self.ast.ID)
        ]
        variadic = any(isinstance(child, self.ast.EllipsisParam) for child in params)
        declared = [child for child in params if not isinstance(child, self.ast.EllipsisParam)]
        typed = [Param(child.name or "", decayed(self.ctype(child.type))) for child in declared]
        if len(typed) == 1 and typed[0].type.kind == "void":
            typed = []
        return Signature(name, self.ctype(node.type), tuple(typed), variadic)

    def ctype(self, node: Any) -> CType:
        """Return the type of a declarator tree."""
        ast = self.ast
        if isinstance(node, ast.TypeDecl):
            base = self._base(node.type)
            return base.as_const() if "const" in (node.quals or []) else base
        if isinstance(node, ast.PtrDecl):
            pointer = pointer_to(self.ctype(node.type))
            return pointer.as_const() if "const" in (node.quals or []) else pointer
        if isinstance(node, ast.ArrayDecl):
            return array_of(self.ctype(node.type), _constant(node.dim))
        if isinstance(node, ast.FuncDecl):
            signature = self._signature("", node)
            return function_type(
                signature.returns, [param.type for param in signature.params], signature.variadic
            )
        return self.ctype(node.type) if isinstance(node, ast.Typename) else self._base(node)

    def _base(self, node: Any) -> CType:
        ast = self.ast
        if isinstance(node, ast.Enum):
            return CType("int", 4, False, text=f"enum {node.name}" if node.name else "enum")
        if isinstance(node, (ast.Struct, ast.Union)):
            kind: Any = "struct" if isinstance(node, ast.Struct) else "union"
            return CType(kind, text=f"{kind} {node.name}" if node.name else kind)
        names = [name for name in getattr(node, "names", []) if name not in ("const", "volatile")]
        if len(names) == 1 and names[0] in self.types:
            return self.types[names[0]]
        return _builtin(names)


def _redefines(tokens: Sequence[str], name: str) -> bool:
    """Whether a typedef defines this very name (again), so that it must not be predeclared."""
    return tokens[0] == "typedef" and tokens[-1] == name


def _constant(node: Any) -> int | None:
    value = getattr(node, "value", "")
    try:
        return int(value.rstrip("uUlL"), 0)
    except ValueError:
        return None


def _builtin(names: Sequence[str]) -> CType:
    """Return a built-in arithmetic type from its words, in whatever order they were written."""
    words, text = set(names), " ".join(names)
    if "_Complex" in words:
        size = 32 if "long" in words else 8 if "float" in words else 16
        return CType("complex", size, True, text=text)
    if "void" in words:
        return VOID
    if "_Bool" in words:
        return CType("bool", 1, text="_Bool")
    if "float" in words or "double" in words:
        return CType("float", 4 if "float" in words else 16 if "long" in words else 8, True, text=text)
    if "__int128" in words:
        return CType("int", 16, "unsigned" not in words, text=text)
    if "char" in words:
        # Plain char is signed on x86 and unsigned on Arm.
        signed = "signed" in words or (
            "unsigned" not in words and not platform.machine().startswith(("aarch", "arm"))
        )
        return CType("int", 1, signed, text=text)
    if words & {"short", "int", "long", "signed", "unsigned"}:
        size = 2 if "short" in words else 8 if "long" in words else 4
        return CType("int", size, "unsigned" not in words, text=text)
    return CType("unknown", text=text or "?")
