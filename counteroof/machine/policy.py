"""How lines get into each cache and whether its sets are hashed, by processor: nothing at run time tells all.

Sources: Intel 64 and IA-32 Optimization Reference Manual (Skylake Server: the L3 takes the L2's evictions;
client up to Rocket Lake and server up to Broadwell: inclusive L3; Tiger Lake: non-inclusive); AMD Software
Optimization Guides for families 17h, 19h and 1Ah (L2 inclusive of L1, L3 filled by L2 victims); Arm Neoverse
N1, V1, N2 and V2 technical reference manuals (L2 strictly inclusive of the L1 data cache).
"""

from __future__ import annotations

from dataclasses import dataclass

from .model import Fill

_INTEL_VICTIM_L3 = frozenset(
    {
        0x55,  # Skylake-SP, Cascade Lake, Cooper Lake
        0x6A,  # Ice Lake-SP
        0x6C,  # Ice Lake-D
        0x8F,  # Sapphire Rapids
        0xCF,  # Emerald Rapids
        0xAD,  # Granite Rapids
        0xAE,  # Granite Rapids-D
        0xAF,  # Sierra Forest
        0xDD,  # Clearwater Forest
    }
)
_INTEL_INCLUSIVE_L3 = frozenset(
    {
        *(0x1A, 0x1E, 0x1F, 0x2E),  # Nehalem
        *(0x25, 0x2C, 0x2F),  # Westmere
        *(0x2A, 0x2D, 0x3A, 0x3E),  # Sandy Bridge, Ivy Bridge
        *(0x3C, 0x3F, 0x45, 0x46),  # Haswell
        *(0x3D, 0x47, 0x4F, 0x56),  # Broadwell
        *(0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6),  # Skylake client to Comet Lake
        *(0x66, 0x7D, 0x7E, 0xA7),  # Cannon Lake, Ice Lake client, Rocket Lake
    }
)
_INTEL_UNHASHED_L3 = frozenset({0x1A, 0x1E, 0x1F, 0x25, 0x2C})  # before slices: one array of sets
_INTEL_INCLUSIVE_L2 = frozenset({0x57, 0x85})  # Knights Landing, Knights Mill
_AMD = ("AuthenticAMD", "HygonGenuine")


@dataclass(frozen=True)
class Identity:
    """The processor as tables know it; for Arm, the implementer and part numbers."""

    vendor: str | None
    family: int | None
    model: int | None


def fill(identity: Identity, level: int, inclusive: bool | None) -> tuple[Fill, str]:
    """Return how a level is filled, and where that is known from.

    ``inclusive`` is what CPUID says of the level, or ``None``. It tells inclusive from the rest, but not a
    cache filled by evictions from one filled along with the levels above.
    """
    if level == 1:
        return "non-inclusive", ""
    known = _documented_fill(identity, level)
    if known is not None:
        return known, "fill by processor model"
    if inclusive is not None:
        return ("inclusive" if inclusive else "non-inclusive"), "fill by CPUID"
    return "non-inclusive", "fill assumed"


def _documented_fill(identity: Identity, level: int) -> Fill | None:
    if identity.vendor == "GenuineIntel" and identity.family == 6:
        if level == 2:
            return "inclusive" if identity.model in _INTEL_INCLUSIVE_L2 else "non-inclusive"
        if identity.model in _INTEL_VICTIM_L3:
            return "victim"
        if identity.model in _INTEL_INCLUSIVE_L3:
            return "inclusive"
        return None
    if identity.vendor in _AMD and identity.family is not None and identity.family >= 0x17:
        return "inclusive" if level == 2 else "victim"
    if identity.vendor == "Arm" and level == 2:
        return "inclusive"
    return None


def hashed(identity: Identity, level: int, complex_index: bool | None) -> tuple[bool, str]:
    """Return whether a hash of the address picks the set, and where that is known from.

    ``complex_index`` is what CPUID says of the level, or ``None``.
    """
    if level < 3:
        return bool(complex_index), ""
    if identity.vendor == "GenuineIntel" and identity.family == 6 and identity.model in _INTEL_UNHASHED_L3:
        return False, "index by processor model"
    if identity.vendor == "GenuineIntel" and identity.model in _INTEL_INCLUSIVE_L3 | _INTEL_VICTIM_L3:
        return True, "index by processor model"
    if identity.vendor in _AMD and identity.family is not None and identity.family >= 0x17:
        return True, "index by processor model"
    if complex_index is not None:
        return complex_index, "index by CPUID"
    return True, "hashed index assumed"
