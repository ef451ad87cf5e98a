"""C text cut into declarations, each a list of tokens, without what a plain C parser does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*   # dropped: space, comments, directives
      | (?P<keep> [A-Za-z_]\w* | \.?\d(?:[eEpP][+-]|[\w.])*
                | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | \.\.\. | \[\[ | . )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DROPPED = frozenset((
    "restrict", "__restrict", "__restrict__", "inline", "__inline", "__inline__", "__extension__",
    "_Noreturn", "noreturn", "__signed__", "register", "auto", "_Thread_local", "__thread", "constexpr",
    "noexcept", "__cdecl", "__stdcall", "__fastcall", "__vectorcall",
))  # fmt: skip
_DROPPED_WITH_ARGUMENT = frozenset((
    "__attribute__", "__attribute", "asm", "__asm", "__asm__", "__declspec", "_Alignas", "alignas",
))  # fmt: skip
_RENAMED = {"__const": "const", "__const__": "const", "__volatile__": "volatile", "__volatile": "volatile",
            "_Bool": "_Bool", "bool": "_Bool", "__complex__": "_Complex", "__signed": "signed"}  # fmt: skip


def _tokens(text: str) -> list[str]:
    found = [match["keep"] for match in _TOKEN.finditer(text) if match["keep"]]
    tokens = []
    for token, before, after in zip(found, ["", *found], [*found[1:], ""], strict=False):
        if token == "complex" and {before, after} & {"float", "double"}:
            token = "_Complex"  # the macro of <complex.h>
        elif token == "__int128" and not {before, after} & {"signed", "unsigned"}:
            tokens.append("signed")  # pycparser knows it only with a sign
        tokens.append(token)
    return tokens


def declarations(text: str) -> Iterator[list[str]]:
    """Cut C text into declarations at file level: extensions dropped, bodies of functions dropped."""
    tokens, at = _tokens(text), 0
    current: list[str] = []
    while at < len(tokens):
        token = tokens[at]
        if token in _DROPPED_WITH_ARGUMENT:
            at = _after_bracket(tokens, at + 1, "(", ")")
        elif token == "[[":
            while at < len(tokens) and tokens[at : at + 2] != ["]", "]"]:
                at += 1
            at += 2
        elif token == "extern" and tokens[at + 1 : at + 2] in (['"C"'], ['"C++"']):
            at += 3 if tokens[at + 2 : at + 3] == ["{"] else 2
        elif token in _DROPPED or (token == "}" and not current):
            at += 1
        elif token == "{":
            end = _after_bracket(tokens, at, "{", "}")
            if current and current[-1] == ")":  # a function's body
                yield current
                current = []
            else:
                current += [_RENAMED.get(name, name) for name in _plain(tokens[at:end])]
            at = end
        elif token == ";":
            if current:
                yield current
            current, at = [], at + 1
        else:
            current.append(_RENAMED.get(token, token))
            at += 1
    if current:
        yield current


def _plain(tokens: Sequence[str]) -> Iterator[str]:
    """Drop the extensions inside a struct's or enum's braces."""
    at = 0
    while at < len(tokens):
        if tokens[at] in _DROPPED_WITH_ARGUMENT:
            at = _after_bracket(tokens, at + 1, "(", ")")
            continue
        if tokens[at] not in _DROPPED:
            yield tokens[at]
        at += 1


def _after_bracket(tokens: Sequence[str], at: int, opening: str, closing: str) -> int:
    """Return the position after the bracket that closes the one at ``at``, or ``at`` if there is none."""
    if at >= len(tokens) or tokens[at] != opening:
        return at
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] == opening) - (tokens[at] == closing)
        at += 1
        if not depth:
            break
    return at
