"""What can be measured on this machine, by what and how well; what cannot, why, and what would allow it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from .count import likwid_access, resctrl, select
from .count.events import EventData, Processor, builtin, this_processor
from .count.likwid_look import INSTALL, Look, Looked
from .count.perf import stays_at_zero
from .count.perf_collect import Sources, choose_sources
from .count.perf_open import Opener, open_event
from .count.perf_plan import NOT_IDENTIFIED, Source, Term, plan
from .count.pmus import NO_CORE, NOT_SHOWN, REAL, Pmu, discover
from .errors import CounteroofError
from .machine import system
from .machine.sysfs import Tree, cpuinfo
from .machine.system import Item

State = Literal["yes", "no", "partly"]

ENGINE = "instrument"
_DRIVERS = {"GenuineIntel": "sudo modprobe intel_uncore", "AuthenticAMD": "sudo modprobe amd_uncore"}
"""Loads the driver of the memory controllers' PMUs, where it is a module."""
NO_PMU = "bare metal, or a virtual machine with a PMU of its own (QEMU/KVM on such a host: -cpu host,pmu=on)"


@dataclass(frozen=True)
class Offer:
    """One way of having a quantity.

    Attributes
    ----------
    counter
        What counts: ``perf``, ``likwid``, ``instrument``, ``resctrl``, or how else it is had.
    state
        ``partly`` for a lower bound.
    finding
        How good it is, or why it is not to be had.
    remedy
        The one command or change that would allow it, if there is one.
    """

    counter: str
    state: State
    finding: str
    remedy: str | None = None


@dataclass(frozen=True)
class Quantity:
    """Something that may be wanted, and the ways of having it, the one that ``auto`` would take first."""

    name: str
    offers: tuple[Offer, ...]

    @property
    def state(self) -> State:
        """Whether anything delivers it."""
        states = {offer.state for offer in self.offers}
        return "yes" if "yes" in states else "partly" if "partly" in states else "no"


@dataclass(frozen=True)
class Survey:
    """What a machine allows."""

    processor: str
    """What the event data call it, or what it says of itself."""
    quantities: tuple[Quantity, ...]
    system: tuple[Item, ...]


@dataclass(frozen=True)
class Surroundings:
    """Where a survey looks: replaced by tests, so that any machine can be surveyed anywhere."""

    tree: Tree = REAL
    cpu: Processor | None = None
    pmus: tuple[Pmu, ...] | None = None
    opener: Opener = open_event
    data: EventData = field(default_factory=builtin)
    monitor: resctrl.Support | None = None
    likwid: Looked | None = None
    engine: select.Availability | None = None


def survey(where: Surroundings | None = None, look: Look | None = None) -> Survey:
    """Return what this machine allows; nothing is changed and nothing takes long.

    Parameters
    ----------
    where
        Where to look.
    look
        The question to LIKWID, if it has been asked already.
    """
    return _Survey(where or Surroundings(), look).survey()


class _Survey:
    def __init__(self, where: Surroundings, look: Look | None) -> None:
        asked = where.likwid or look or Look()  # it answers while the rest is looked at
        self.tree = where.tree
        cpu = self.cpu = where.cpu or this_processor(where.tree)
        self.pmus = discover(where.tree) if where.pmus is None else where.pmus
        self.plan = plan(where.data, cpu, self.pmus, where.tree)
        self.monitor = where.monitor or resctrl.support()
        self.broken: str | None = None
        self.zero: str | None = None
        try:
            self.sources = choose_sources(self.plan, where.opener, self.monitor)
            if where.opener is open_event:
                self.zero = stays_at_zero(self.sources)
        except CounteroofError as error:  # the compiled part is missing
            self.broken = str(error)
            self.sources = Sources(self.plan, None, None)
        self.engine = where.engine or select.instrument()
        self.looked = asked if isinstance(asked, Looked) else asked.result()

    def survey(self) -> Survey:
        quantities = (
            Quantity("FLOPs", (self.likwid_for("FLOPs"), self.flops(), self.by_engine("exact"))),
            Quantity(
                "DRAM bytes",
                (
                    self.likwid_for("bytes"),
                    self.memory(),
                    self.resctrl(),
                    *self.reads(),
                    self.by_engine("modelled"),
                ),
            ),
            Quantity("cache traffic", (self.caches(), self.by_engine("modelled"))),
            Quantity("clock", (self.cycles(), _clock())),
            Quantity("time", (_time(),)),
            Quantity("compiling C files", (_compiler(),)),
        )
        return Survey(self.plan.title, quantities, (*self.machine_items(), *system.items(self.tree)))

    def machine_items(self) -> tuple[Item, ...]:
        known = (
            "counter events known" if self.plan.known else "no counter events known; --events FILE adds them"
        )
        if not self.cpu.identified:
            known = "unknown: /proc/cpuinfo is not there"
        names = system.grouped(pmu.name for pmu in self.pmus)
        monitor = "usable" if self.monitor.usable else "not usable"
        traps = (
            [Item("known traps", "; ".join(self.plan.traps))] if self.plan.traps and self.plan.cores else []
        )
        likwid = self.looked.availability
        return (
            Item("microarchitecture", self.plan.title, known),
            *traps,
            Item("PMUs", names or "none"),
            Item("LIKWID", "usable" if likwid.usable else "not usable", likwid.reason),
            Item("LIKWID access", likwid_access.described(self.looked.access, self.looked.daemon)),
            Item("resctrl", monitor, self.monitor.reason),
        )

    # -- offers

    def by_engine(self, quality: str) -> Offer:
        how = {
            "exact": "every executed instruction, counted exactly",
            "modelled": "every access of the kernel through a model of this machine's caches",
        }
        if self.engine.usable:
            return Offer(ENGINE, "yes", how[quality])
        remedy = "pip install iced-x86" if "iced-x86" in self.engine.reason else None
        return Offer(ENGINE, "no", self.engine.reason, remedy)

    def likwid_for(self, quantity: str) -> Offer:
        found = self.looked.availability
        if found.usable and quantity in found.quantities:
            return Offer("likwid", "yes", found.reason)
        remedy = self.looked.remedy
        if self.no_core_pmu() and remedy != INSTALL:
            remedy = NO_PMU
        return Offer("likwid", "no", found.reason, remedy or self.remedy(found.reason, system_wide=True))

    def no_core_pmu(self) -> bool:
        return not self.plan.cores

    def of_terms(self, terms: Iterable[Term], quality: str, missing: str) -> Offer:
        """Return the offer of a sum of events: there if all of them open."""
        terms = tuple(terms)
        if (worthless := self.broken or self.zero) is not None:
            return Offer("perf", "no", worthless, self.remedy(worthless, system_wide=False))
        refused = next(
            (self.sources.refused[t.event] for t in terms if t.event in self.sources.refused), None
        )
        if terms and refused is None:
            return Offer("perf", "yes", quality)
        reason = refused or missing
        return Offer("perf", "no", reason, self.remedy(reason, system_wide=False))

    def remedy(self, reason: str, *, system_wide: bool) -> str | None:
        """Return what would lift a refusal, by its text."""
        if "sysctl kernel.perf_event_paranoid" in reason:
            return f"sudo sysctl kernel.perf_event_paranoid={0 if system_wide else 2}"
        if "seccomp" in reason:
            return "docker run --cap-add PERFMON --security-opt seccomp=unconfined ..."
        if NOT_SHOWN in reason:
            return (
                "sudo mount -t sysfs sysfs /sys, in a container where it starts (docker run has it by itself)"
            )
        if NOT_IDENTIFIED in reason:
            return "sudo mount -t proc proc /proc, in a container where it starts"
        if "stay at 0" in reason:
            return NO_PMU
        if "nmi_watchdog" in reason:
            return "sudo sysctl kernel.nmi_watchdog=0"
        if "--events FILE" in reason:
            return "counteroof run --events FILE, a file in the form of counteroof/data/events"
        if self.no_core_pmu():
            return NO_PMU
        if system_wide and "has no PMU" in reason:
            if "hypervisor" in cpuinfo(self.tree).get("flags", "").split():
                return "bare metal: no hypervisor passes memory controllers on"
            return _DRIVERS.get(self.cpu.vendor)
        return None

    def flops(self) -> Offer:
        one = self.plan
        number = len(one.flops)
        quality = f"{number} event{'s' * (number > 1)} of {one.title}"
        if one.flops_notes:
            quality += f" ({'; '.join(one.flops_notes)})"
        offer = self.of_terms(one.flops, quality, one.reasons.get("flops", "nothing counts them"))
        if offer.state == "yes" and one.no_flops_on:
            blind = ", ".join(one.no_flops_on)
            return Offer("perf", "partly", f"{quality}; not on {blind}: keep the kernel off those cores")
        return offer

    def memory(self) -> Offer:
        dram = self.sources.dram
        if self.broken is not None:
            return Offer("perf", "no", self.broken)
        if dram is not None:
            return Offer("perf", "yes", _of_source(dram))
        reasons = [one for one in self.sources.tried if not one.startswith("resctrl")]
        reason = "; ".join(dict.fromkeys(reasons)) or self.plan.reasons.get("dram", "nothing counts them")
        return Offer("perf", "no", reason, self.remedy(reason, system_wide=True))

    def resctrl(self) -> Offer:
        one = self.monitor
        state: State = "no" if not one.usable else "yes" if one.complete else "partly"
        return Offer("resctrl", state, one.reason, one.remedy)

    def reads(self) -> tuple[Offer, ...]:
        """Return the lower bound that the cores' own events give, where nothing better is there."""
        source = self.sources.reads
        if source is None:
            return ()
        blind = f": {source.notes[0]}" if source.notes else ""
        return (Offer("perf, reads only", "partly", f"a lower bound by {source.name}{blind}"),)

    def caches(self) -> Offer:
        one = self.plan
        sources = [source for source in (one.l1_l2, one.l2_l3) if source is not None]
        terms = [term for source in sources for term in source.terms]
        missing = [one.reasons[name] for name in ("l1_l2", "l2_l3") if name in one.reasons]
        offer = self.of_terms(terms, "lines in and out of L1 and L2", "; ".join(dict.fromkeys(missing)))
        if offer.state == "yes" and missing:
            return Offer("perf", "partly", f"one border of two; {'; '.join(missing)}")
        return offer

    def cycles(self) -> Offer:
        missing = self.plan.reasons.get("cycles", NO_CORE)
        return self.of_terms(self.plan.cycles, "cycles of the kernel's own threads", missing)


def _of_source(source: Source) -> str:
    places = len({term.event.place for term in source.terms})
    where = "read on a processor of each socket" if source.terms[0].event.system else "of the own threads"
    split = "" if source.split else ", reads and writes together"
    notes = f" ({'; '.join(source.notes)})" if source.notes else ""
    return f"{source.name}: {places} PMU{'s' * (places > 1)} {where}{split}{notes}"


def _clock() -> Offer:
    return Offer("a chain of dependent additions", "yes", "measured with the ceilings (counteroof machine)")


def _time() -> Offer:
    count = len(os.sched_getaffinity(0))
    plural = "s" if count > 1 else ""
    return Offer("pyperf", "yes", f"in processes of their own, on {count} processor{plural}")


def _compiler() -> Offer:
    for name in (os.environ.get("CC", "").split(" ")[0], "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return Offer("C compiler", "yes", path)
    return Offer("C compiler", "no", "no C compiler (CC, cc, gcc, clang)", "sudo apt install gcc")
