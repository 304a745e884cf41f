"""Chips, logical cores and systems as frozen values; the facts live in data/hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trn2model.errors import UnsupportedError
from trn2model.specs.provenance import Figure

ChipFamily = Literal["trainium", "gpu"]
Interconnect = Literal["torus", "switch", "none"]


@dataclass(frozen=True, slots=True)
class TensorEngine:
    """Matmul array of one physical core (or of one GPU): extents of its tile."""

    contraction_size: int
    stationary_size: int
    moving_size: int
    clock: float


@dataclass(frozen=True, slots=True)
class Chip:
    """One accelerator; rates are for the whole chip, dense unless the name says sparse."""

    name: str
    family: ChipFamily
    num_cores: int
    tensor_engine: TensorEngine
    flop_rate: Mapping[str, float]
    sparse_flop_rate: Mapping[str, Mapping[str, float]]
    sparsity_patterns: tuple[str, ...]
    fp8_contraction_passes: Mapping[str, float]
    hbm_bytes: float
    hbm_bandwidth: float
    sbuf_bytes: float
    vector_element_rate: float
    scalar_element_rate: float
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class System:
    """A machine one rents: an instance, or an UltraServer of four of them.

    `default_profiles` holds one profile for each of "train", "serve" and "kernels".
    """

    name: str
    title: str
    chip: Chip
    num_chips: int
    num_instances: int
    interconnect: Interconnect
    torus_shape: tuple[int, int, int]
    link_bandwidth: tuple[float, float, float]
    nic_bandwidth: float
    supports_lnc: bool
    prices: Mapping[str, Figure]
    default_price_option: str
    default_profiles: Mapping[str, str]
    extra: bool
    figures: Mapping[str, Figure]

    @property
    def default_profile(self) -> str:
        """Profile of kernels and links alone."""
        return self.default_profiles["kernels"]


@dataclass(frozen=True, slots=True)
class LogicalCore:
    """What one rank computes with: 1 or 2 physical cores of a Trainium chip, or a whole GPU."""

    chip: Chip
    ranks_per_chip: int
    cores_per_rank: int
    hbm_bytes: float
    hbm_bandwidth: float
    sbuf_bytes: float
    vector_element_rate: float
    scalar_element_rate: float

    def flop_rate(self, dtype: str) -> float:
        """Dense FLOP rate of one rank for a matmul dtype [FLOP/s].

        Raises UnsupportedError (the chip publishes no rate for the dtype).
        """
        return chip_flop_rate(self.chip, dtype) / self.ranks_per_chip


def chip_flop_rate(chip: Chip, dtype: str) -> float:
    """Dense FLOP rate of a chip for a matmul dtype [FLOP/s].

    Raises UnsupportedError (the chip publishes no rate for the dtype).
    """
    if dtype not in chip.flop_rate:
        message = f"{chip.name} has no published {dtype} matmul rate; it has {', '.join(chip.flop_rate)}"
        raise UnsupportedError(message)
    return chip.flop_rate[dtype]


def logical_core(system: System, lnc: int) -> LogicalCore:
    """Resources of one rank: the chip divided by its ranks."""
    chip = system.chip
    if chip.family == "gpu":
        cores_per_rank = chip.num_cores
    else:
        cores_per_rank = lnc if system.supports_lnc else 1
    ranks = chip.num_cores // cores_per_rank
    return LogicalCore(
        chip=chip,
        ranks_per_chip=ranks,
        cores_per_rank=cores_per_rank,
        hbm_bytes=chip.hbm_bytes / ranks,
        hbm_bandwidth=chip.hbm_bandwidth / ranks,
        sbuf_bytes=chip.sbuf_bytes * cores_per_rank,
        vector_element_rate=chip.vector_element_rate / ranks,
        scalar_element_rate=chip.scalar_element_rate / ranks,
    )
