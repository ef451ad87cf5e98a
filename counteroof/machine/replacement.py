"""Replacement policies by name, as files and texts give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from .. import jsonio
from ..errors import Problem
from .model import Policy

BIMODAL = 1 / 32
"""Share of lines that a bimodal policy takes in near: the epsilon of Qureshi et al., ISCA 2007."""
LEADERS = 32
"""Sets that lead for each side, as in Qureshi et al., ISCA 2007, and Jaleel et al., ISCA 2010."""

POLICIES: Mapping[str, Policy] = {
    "lru": Policy(),
    "plru": Policy("plru"),
    "random": Policy("random"),
    "srrip": Policy("rrip"),
    "brrip": Policy("rrip", near=BIMODAL),
    "drrip": Policy("rrip", rival=BIMODAL, leaders=LEADERS),
    # the quad-age LRU of Intel's last-level caches, QLRU_H11_M1_R0_U0 to Abel and Reineke (ISPASS 2020)
    "qlru": Policy("rrip", near_age=1, hit_age=1, aging="at once"),
    # a bit a line, MRU to Abel and Reineke: once all are set, those of the others are cleared
    "mru": Policy("rrip", near_age=0, aging="of others"),
    "bimodal": Policy("adaptive", near=BIMODAL),
    "adaptive": Policy("adaptive", rival=BIMODAL, leaders=LEADERS),
}


def read(data: object, where: str, problems: list[Problem]) -> Policy | None:
    """Return a policy given by its name, or by a table of name and what differs from it.

    Returns ``None`` after adding the mistakes to ``problems``.
    """
    table = {"name": data} if isinstance(data, str) else data
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        expected = 'a name such as "lru", or a table such as { name = "qlru", near = 0.5 }'
        problems.append(Problem(where, jsonio.shown(data), expected))
        return None
    base = POLICIES.get(table["name"])
    if base is None:
        problems.append(Problem(where, repr(table["name"]), "one of " + ", ".join(POLICIES)))
        return None
    changes = {key: value for key, value in table.items() if key != "name"}
    return jsonio.from_json(Policy, {**jsonio.to_json(base), **changes}, where, problems)


def text(policy: Policy) -> str:
    """Return a policy as its name, and what differs from it."""
    names = [name for name, base in POLICIES.items() if base.kind == policy.kind]
    found = {name: _differences(policy, POLICIES[name]) for name in names}
    name = min(names, key=lambda one: len(found[one]))
    return " ".join([name, *found[name]])


def _differences(policy: Policy, base: Policy) -> list[str]:
    fields = (field.name for field in dataclasses.fields(Policy))
    changed = [name for name in fields if getattr(policy, name) != getattr(base, name)]
    return [f"{name}={_value(getattr(policy, name))}" for name in changed]


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
