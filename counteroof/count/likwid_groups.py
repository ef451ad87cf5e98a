"""What LIKWID's groups say of a call: FLOPs from their rates, bytes from their volumes, each socket once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from . import believable
from .base import Count, FlopClass, Measurement, unavailable
from .likwid_client import Group, Known, Likwid, LikwidFailed, Ran

if TYPE_CHECKING:
    from .events import EventFact

NAME = "likwid"
SECONDS = 0.05
"""Seconds the counted calls of a group last at least."""
IDLE_SECONDS = (0.02, 0.25)
"""Seconds of the look at idle memory before and after: as long as the calls, within these limits."""
EVENTS_TOGETHER = 4
"""Events in a set of our own: every core has as many counters."""
FLOP_GROUPS = {"FLOPS_DP": "f64", "FLOPS_SP": "f32", "FLOPS_HP": "f16"}
PREFIXES = {"f64": "DP", "f32": "SP", "f16": "HP"}
MEMORY_GROUPS = (("MEM",), ("MEM1", "MEM2"))
"""Memory traffic is in the first of these that is there in full; of two each sees a part of the channels."""
DISTRUSTED = {
    "arm8_n1": "LIKWID's group MEM counts loads and stores of the core here, not DRAM traffic",
    "zen2": "LIKWID's group MEM has a wrong factor on this processor (its issues 510, 527, 535)",
}
"""Processors, by LIKWID's short name, whose memory groups are known to be wrong."""
INSTRUCTIONS = ("INSTR_RETIRED_ANY", "RETIRED_INSTRUCTIONS", "INST_RETIRED", "PM_RUN_INST_CMPL")
_VOLUME = re.compile(r"Memory (?:(read|load|write|evict|writeback) )?data volume \[GBytes?\]")
_READS = ("read", "load")


def flop_groups(known: Known) -> tuple[str, ...]:
    """Return the groups whose FLOPs are to be added up."""
    return tuple(name for name in FLOP_GROUPS if name in known.groups)


def memory_groups(known: Known) -> tuple[str, ...]:
    """Return the groups whose bytes are to be added up."""
    if known.short in DISTRUSTED:
        return ()
    return next((names for names in MEMORY_GROUPS if set(names) <= set(known.groups)), ())


class NoValue(Exception):
    """LIKWID gave no number for a metric of a group that ran."""

    def __init__(self, group: Group, metric: str) -> None:
        super().__init__(f"LIKWID has no value of {metric.strip()!r} of the group {group.name}")


@dataclass
class Counting:
    """Groups run one after the other over the same calls.

    Parameters
    ----------
    likwid
        LIKWID, started.
    sockets
        The socket of each processor that is counted.
    calls
        Calls to count.
    call
        Makes so many calls and returns their seconds.
    needed
        FLOPs that the kernel was declared to need for a result that was found right; ``None`` if unknown.
    """

    likwid: Likwid
    sockets: Sequence[int]
    calls: int
    call: Callable[[int], float]
    needed: float | None = None
    notes: list[str] = field(default_factory=list)

    def measurement(self, vector_bits: int = 128, facts: Sequence[EventFact] = ()) -> Measurement:
        """Count all groups, and return what they say of one call.

        Parameters
        ----------
        vector_bits
            Length of a scalable vector.
        facts
            Events whose weighted sum is the FLOPs, for a processor without a group for them.
        """
        number = len(self.sockets)
        self.notes.append(
            f"LIKWID counts processors, not processes: whatever ran on the {number} that this process may "
            "use is in it; fewer are left with taskset"
        )
        flops, classes, instructions = self.flops(vector_bits, facts)
        flops = believable.flops(flops, self.needed)
        read, write, total = self.bytes()
        none = unavailable(NAME, "LIKWID is asked for FLOPs and memory only")
        return Measurement(
            counter=NAME,
            flops=flops,
            issued_flops=unavailable(NAME, "the processor's counters do not tell masked lanes from others"),
            instructions=instructions,
            l1_l2_bytes=none,
            l2_l3_bytes=none,
            dram_read_bytes=read,
            dram_write_bytes=write,
            write_allocate_bytes=unavailable(NAME, "no event tells write-allocates from other reads"),
            flops_by=() if flops.value is None else classes,
            notes=tuple(self.notes),
            dram_bytes=total,
        )

    # -- FLOPs

    def flops(
        self, vector_bits: int, facts: Sequence[EventFact] = ()
    ) -> tuple[Count, tuple[FlopClass, ...], Count]:
        """Return FLOPs, FLOPs by precision, and instructions."""
        instructions = unavailable(NAME, "no group has instructions")
        sums: dict[str, float] = {}
        seen: dict[tuple[str, ...], str] = {}
        for name in flop_groups(self.likwid.known):
            group = self.likwid.add(name)
            if group.events in seen:  # on Zen 2 to 4 one event counts all precisions, and is in both groups
                self.notes.append(
                    f"group {name} has the events of {seen[group.events]} and was not added to it"
                )
                sums = {"": sum(sums.values())}
                continue
            seen[group.events] = name
            _, ran = self.likwid.run(group, lambda: self.call(self.calls))
            try:
                rate = _rate(group, ran, PREFIXES[FLOP_GROUPS[name]], vector_bits)
            except NoValue as error:
                return unavailable(NAME, str(error)), (), instructions
            if rate is None:
                return unavailable(NAME, f"group {name} has no metric for its FLOPs"), (), instructions
            sums[FLOP_GROUPS[name]] = rate * 1e6 * ran.seconds
            if instructions.value is None:
                instructions = self.instructions(group, ran)
        if not sums:
            return self.own_flops(facts)
        flops = Count(
            _rounded(sum(sums.values()) / self.calls), "counted", "LIKWID " + ", ".join(seen.values())
        )
        classes = tuple(
            FlopClass(precision, None, "any", _rounded(value / self.calls))
            for precision, value in sums.items()
            if precision and _rounded(value / self.calls)
        )
        return flops, classes, instructions

    def own_flops(self, facts: Sequence[EventFact]) -> tuple[Count, tuple[FlopClass, ...], Count]:
        """Return the FLOPs of event sets of our own, where LIKWID has no group for them."""
        none = unavailable(NAME, f"LIKWID has no group for FLOPs on {self.likwid.known.cpu}")
        instructions = unavailable(NAME, "no group has instructions")
        if not facts:
            return none, (), instructions
        total = 0.0
        sums: dict[str, float] = {}
        for first in range(0, len(facts), EVENTS_TOGETHER):
            some = facts[first : first + EVENTS_TOGETHER]
            names = [fact.name.replace(".", "_").upper() for fact in some]
            try:
                group = self.likwid.add(",".join(f"{name}:PMC{n}" for n, name in enumerate(names)))
            except LikwidFailed as error:
                reason = f"{none.reason}, and of our own events: {error}"
                return unavailable(NAME, reason), (), instructions
            _, ran = self.likwid.run(group, lambda: self.call(self.calls))
            counted = dict(zip(group.events, ran.events, strict=True))
            for fact, name in zip(some, names, strict=True):
                values = counted.get(name, ())
                if not values or None in values:
                    return unavailable(NAME, f"LIKWID has no count of {name}"), (), instructions
                flops = (fact.weight or 0) * sum(value or 0 for value in values)
                total += flops
                sums[fact.precision] = sums.get(fact.precision, 0.0) + flops
        classes = tuple(
            FlopClass(precision, None, "any", _rounded(value / self.calls))
            for precision, value in sums.items()
            if precision in PREFIXES and _rounded(value / self.calls)
        )
        flops_count = Count(
            _rounded(total / self.calls), "counted", f"LIKWID, {len(facts)} events of our own"
        )
        return flops_count, classes, instructions

    def instructions(self, group: Group, ran: Ran) -> Count:
        """Return the instructions, if the group counted them."""
        for name, values in zip(group.events, ran.events, strict=True):
            if name in INSTRUCTIONS and None not in values:
                total = sum(value or 0 for value in values)
                return Count(_rounded(total / self.calls), "counted", f"LIKWID {name}")
        return unavailable(NAME, f"group {group.name} has no instructions")

    # -- memory

    def bytes(self) -> tuple[Count, Count, Count | None]:
        """Return bytes read, bytes written, and their sum where only that is known."""
        try:
            return self._bytes()
        except NoValue as error:
            none = unavailable(NAME, str(error))
            return none, none, None

    def _bytes(self) -> tuple[Count, Count, Count | None]:
        names = memory_groups(self.likwid.known)
        if not names:
            reason = DISTRUSTED.get(
                self.likwid.known.short, f"LIKWID has no group for memory on {self.likwid.known.cpu}"
            )
            return unavailable(NAME, reason), unavailable(NAME, reason), None
        sums: dict[str, float] = {}
        others = 0.0
        for name in names:
            group = self.likwid.add(name)
            _, before = self.likwid.run(group, lambda: _sleep(IDLE_SECONDS[0]))
            seconds, ran = self.likwid.run(group, lambda: self.call(self.calls))
            length = min(max(seconds, IDLE_SECONDS[0]), IDLE_SECONDS[1])
            _, after = self.likwid.run(group, partial(_sleep, length))
            looks = [_volumes(group, look, self.sockets) for look in (before, after)]
            rates = [
                {way: value / look.seconds for way, value in volumes.items()}
                for look, volumes in zip((before, after), looks, strict=True)
                if look.seconds > 0
            ]
            if not rates:
                raise NoValue(group, "the time of its looks at the idle memory")
            volumes = _volumes(group, ran, self.sockets)
            limit = len(set(self.sockets)) * believable.SOCKET_BYTES_PER_SECOND
            if volumes and (refusal := believable.traffic(sum(volumes.values()), seconds, limit)) is not None:
                none = unavailable(f"LIKWID {name}", refusal)
                return none, none, None
            for way, value in volumes.items():
                idle = seconds * sum(rate[way] for rate in rates) / len(rates)
                sums[way] = sums.get(way, 0.0) + value - idle
                others += idle
        return self._counts(sums, others, names)

    def _counts(
        self, sums: Mapping[str, float], others: float, names: Sequence[str]
    ) -> tuple[Count, Count, Count | None]:
        source = "LIKWID " + ", ".join(names)
        self.notes.append(
            "traffic of others, measured just before and after and taken off: "
            f"{others / self.calls:.4g} bytes a call"
        )
        if not sums:
            none = unavailable(source, "the group has no metric for the memory's data volume")
            return none, none, None
        if min(sums.values()) < 0:
            none = unavailable(source, "the traffic counted drowns in that of others; count a larger case")
            return none, none, None
        counts = {way: Count(_rounded(value / self.calls), "counted", source) for way, value in sums.items()}
        if "read" in counts and "write" in counts:
            return counts["read"], counts["write"], None
        apart = unavailable(source, "the group has reads and writes together only")
        return apart, apart, counts.get("both", apart)


def _sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def _rounded(value: float) -> int:
    return round(value)


def _rate(group: Group, ran: Ran, prefix: str, vector_bits: int) -> float | None:
    """Return MFLOP/s of a precision, summed over processors."""
    wanted = (f"{prefix} [MFLOP/s]", f"{prefix} (FP+SVE{vector_bits}) [MFLOP/s]", f"{prefix} MFLOP/s")
    for name, values in zip(group.metrics, ran.metrics, strict=True):
        if name.strip() in wanted:
            known = [value for value in values if value is not None]
            if len(known) < len(values) or not known:
                raise NoValue(group, name)
            return sum(known)
    return None


def _volumes(group: Group, ran: Ran, sockets: Sequence[int]) -> dict[str, float]:
    """Return bytes read and written, or both together; the value of each socket once.

    LIKWID reads a socket's counters on one of its processors and has 0 for the others.
    """
    found: dict[str, float] = {}
    for name, values in zip(group.metrics, ran.metrics, strict=True):
        match = _VOLUME.fullmatch(name.strip())
        if match is None:
            continue
        of_socket: dict[int, list[float]] = {socket: [] for socket in sockets}
        for socket, value in zip(sockets, values, strict=True):
            of_socket[socket] += [] if value is None else [value]
        if not all(of_socket.values()):
            raise NoValue(group, name)
        way = "both" if match[1] is None else "read" if match[1] in _READS else "write"
        found[way] = found.get(way, 0.0) + sum(map(max, of_socket.values())) * 1e9
    if "read" in found and "write" in found:
        found.pop("both", None)
    return found
