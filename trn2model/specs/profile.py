"""Profiles: how ideal becomes real, as a handful of constants with provenance in data/profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from typing import Any, Final, Self

from trn2model.errors import DataError, UnknownNameError
from trn2model.specs.hardware import System
from trn2model.specs.provenance import Figure, list_toml, read_figure, read_toml


class Kind(StrEnum):
    """What is predicted and measured, with the table that holds its measurements and their metric ("" for any)."""

    table: str
    metric: str

    def __new__(cls, value: str, table: str = "", metric: str = "") -> Self:
        """Member that is the text of its first value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.table, member.metric = table, metric
        return member

    TRAIN = "train", "train", "step_time"
    PREFILL = "prefill", "serve", "ttft"
    DECODE = "decode", "serve", "tpot"
    COLLECTIVE = "collective", "collective", ""
    GEMM = "gemm", "gemm", ""


@dataclass(frozen=True, slots=True)
class ComputeConstants:
    """How fast the engines and HBM of a rank work, and what hides behind them; SI units."""

    tile_padding: float  # 1: matmul tiles are padded to the array's extents; 0: not [1]
    tensor_fill: float  # moving columns lost per stationary tile and pass [cycle]
    tensor_efficiency: float  # share of the peak a long, aligned matmul reaches [1]
    fp8_efficiency: float  # share of tensor_efficiency that fp8 matmuls reach [1]
    fp32_efficiency: float  # share of tensor_efficiency that fp32 matmuls reach [1]
    attention_efficiency: float  # share of the peak that the flash-attention matmuls reach [1]
    vector_efficiency: float  # share of the Vector engine's element rate [1]
    scalar_efficiency: float  # share of the Scalar engine's element rate [1]
    hbm_efficiency: float  # share of HBM bandwidth in streaming access [1]
    fusion_fraction: float  # share of elementwise operators' HBM traffic that stays in SBUF [1]
    kv_read_efficiency: float  # share of HBM bandwidth when decode reads the KV cache [1]
    expert_read_efficiency: float  # share of HBM bandwidth when decode reads the experts a router picked [1]
    matmul_overlap_fraction: float  # share of a matmul's shorter side, array or HBM, hidden behind the longer one [1]
    engine_overlap_fraction: float  # share of a block's lesser engines hidden behind its busiest one [1]
    operator_time: float  # fixed cost of one operator [s]
    step_time: float  # fixed host cost of one training step, prefill call or decode step [s]
    tp_overlap_fraction: float  # share of tensor-parallel communication that can hide behind matmuls [1]
    ep_overlap_fraction: float  # share of expert-parallel all-to-alls that can hide behind other compute [1]
    dp_overlap_fraction: float  # share of gradient and FSDP communication that can hide behind compute [1]


@dataclass(frozen=True, slots=True)
class LinkConstants:
    """All that the time of a collective depends on beside the machine; SI units."""

    link_efficiency: float  # share of NeuronLink or NVLink bandwidth [1]
    link_latency: float  # one hop [s]
    chip_bandwidth: float  # bus bandwidth of a collective between the cores of one chip, per core [B/s]
    chip_latency: float  # one step inside a chip [s]
    collective_hbm_efficiency: float  # share of HBM bandwidth that a collective's reads and writes reach [1]
    nic_efficiency: float  # share of EFA bandwidth [1]
    nic_latency: float  # one EFA hop [s]
    ring_collectives: float  # 1: only rings, as before mesh and recursive doubling; 0: the cheapest of all [1]
    collective_time: float  # fixed cost of starting one collective [s]


@dataclass(frozen=True, slots=True)
class ServingConstants:
    """How a serving engine batches, pads and schedules; SI units."""

    kv_padding: float  # share of the compiled context beyond the live one that decode reads all the same [1]
    kv_expansion: float  # 1: decode of several sequences reads a copy of the cache per query head; 0: per group [1]
    expert_padding: float  # share of the routed tokens beyond the distinct experts that read an expert again [1]
    dense_experts: float  # share of the experts a prompt's tokens do not choose that compute them all the same [1]
    expert_sum_passes: float  # vector passes over the outputs of all experts where they run on every token [1]
    lane_padding: float  # 1: a row of decode scores holds one lane of the vector engines, idle lanes wait; 0: no [1]
    request_time: float  # fixed host cost of a request before its prefill: tokens, scheduling, transport [s]
    phase_overlap_fraction: float  # share of the shorter of prefill and decode hidden where a pass may mix them [1]


@dataclass(frozen=True, slots=True)
class Profile:
    """Named set of constants with where they come from.

    `systems` are those whose measurements the profile was fitted to. `widening` multiplies the ends of every range.
    """

    name: str
    title: str
    note: str
    compute: ComputeConstants
    links: LinkConstants
    serving: ServingConstants
    figures: Mapping[str, Figure]
    fitted: tuple[str, ...]
    spreads: Mapping[Kind, tuple[Figure, Figure]]
    systems: tuple[str, ...] = ()
    widening: tuple[float, float] = (1.0, 1.0)

    def spread(self, kind: Kind) -> tuple[float, float]:
        """Low and high factor on a predicted time, from the residuals of what was measured."""
        low, high = self.spreads[kind]
        return low.number() * self.widening[0], high.number() * self.widening[1]

    def value(self, key: str) -> float:
        """Value of a constant by the key of the profile file, in SI units."""
        return float(getattr(getattr(self, _PART_OF[key]), key))

    def with_values(self, values: Mapping[str, float]) -> Profile:
        """Profile with some constants replaced, by their keys in the profile file; in SI units."""
        parts = {name: {key: v for key, v in values.items() if _PART_OF[key] == name} for name in _PARTS}
        return replace(self, **{name: replace(getattr(self, name), **own) for name, own in parts.items() if own})


_PARTS: Final = {"compute": ComputeConstants, "links": LinkConstants, "serving": ServingConstants}
_PART_OF: Final = {f.name: name for name, part in _PARTS.items() for f in fields(part)}
#: keys of a profile file
CONSTANT_NAMES: Final = tuple(_PART_OF)


def profile_names() -> tuple[str, ...]:
    """Names of the profiles in the package's data."""
    return list_toml("profiles")


@cache
def profile(name: str) -> Profile:
    """Profile by name; keys a file leaves out come from the profile it extends.

    Raises UnknownNameError (no such profile); DataError (the file leaves a constant undefined or names an unknown one).
    """
    if name not in profile_names():
        raise UnknownNameError("profile", name, "one of " + ", ".join(profile_names()), "choose a listed profile")
    document = read_toml("profiles", f"{name}.toml")
    figures = _inherited(document)
    for key, table in document["constants"].items():
        figures[key] = read_figure(table, f"profile {name}, {key}")
    if set(figures) != set(CONSTANT_NAMES):
        difference = ", ".join(sorted(set(figures) ^ set(CONSTANT_NAMES)))
        message = f"profile {name}: missing or unknown constants: {difference}"
        raise DataError(message)
    numbers = {part: {key: figures[key].number() for key in CONSTANT_NAMES if _PART_OF[key] == part} for part in _PARTS}
    return Profile(
        name=name,
        title=document["title"],
        note=document.get("note", ""),
        compute=ComputeConstants(**numbers["compute"]),
        links=LinkConstants(**numbers["links"]),
        serving=ServingConstants(**numbers["serving"]),
        figures=figures,
        fitted=tuple(document.get("fitted", ())),
        spreads=_spreads(name, document),
        systems=tuple(document.get("fit", {}).get("systems", ())),
    )


def chosen_profile(system: System, workload: str, name: str | None = None) -> tuple[Profile, tuple[str, ...]]:
    """Profile that an estimate uses, its ranges wider where nothing like the system was measured.

    Raises UnknownNameError (no such profile).
    """
    found = profile(name or system.default_profiles[workload])
    if not found.fitted or system.name in found.systems:
        return found, ()
    if system.num_instances > 1:
        said = f"no UltraServer measurement has been published; {found.name} is extrapolated"
    else:
        said = f"{found.name} was fitted to {', '.join(found.systems)}; extrapolated to {system.name}"
    low, high = _outside()
    return replace(found, widening=(low, high)), (f"{said}: ranges are wider by {1 / low:.3g} and {high:.3g} times.",)


@cache
def _outside() -> tuple[float, float]:
    """Factors on the ends of a range where no row was measured on the system."""
    table = read_toml("fits.toml")["outside"]
    return read_figure(table["low"], "fits.toml, outside").number(), read_figure(table["high"], "fits.toml").number()


def _spreads(name: str, document: Mapping[str, Any]) -> dict[Kind, tuple[Figure, Figure]]:
    base = document.get("extends")
    spreads = dict(profile(base).spreads) if base else {}
    for key, ends in document.get("spreads", {}).items():
        kind, where = Kind(key), f"profile {name}, spread of {key}"
        spreads[kind] = (read_figure(ends["low"], where), read_figure(ends["high"], where))
    if set(spreads) != set(Kind):
        message = f"profile {name}: spreads must be given for {', '.join(Kind)}"
        raise DataError(message)
    return spreads


def _inherited(document: Mapping[str, Any]) -> dict[str, Figure]:
    base = document.get("extends")
    return dict(profile(base).figures) if base else {}
