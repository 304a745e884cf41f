"""Chips, logical cores and systems as frozen values, read from data/hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from trn2model.errors import DataError, UnknownNameError, UnsupportedError
from trn2model.specs.provenance import Figure, list_toml, read_figure, read_toml

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

    @property
    def rank_name(self) -> str:
        """What one rank is called: GPU, core, or logical core where it is made of several."""
        if self.chip.family == "gpu":
            return "GPU"
        return "logical core" if self.cores_per_rank > 1 else "core"

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


FOLDER: Final = "hardware"
MATMUL_DTYPES: Final = ("fp8", "bf16", "fp16", "tf32", "fp32", "int8")


@cache
def hardware_names(kind: str) -> tuple[str, ...]:
    """Names of the hardware files of one kind."""
    return tuple(name for name in list_toml(FOLDER) if _document(name)["kind"] == kind)


def hardware_title(name: str) -> str:
    """Title of a chip or system."""
    return str(_document(name)["title"])


@cache
def load_chip(name: str) -> Chip:
    """Chip from its file.

    Raises UnknownNameError (no such chip); DataError (the file leaves a needed figure out).
    """
    document = _named(name, "chip")
    figures = _figures(document, "figures", name)
    sparse = {basis: _figures(document["sparse"], basis, name) for basis in document.get("sparse", {})}
    passes = _figures(document, "fp8_contraction_passes", name)
    rates = {dtype: figures.get(f"{dtype}_flop_rate") for dtype in MATMUL_DTYPES}
    for basis, table in sparse.items():
        figures |= {f"sparse_{dtype}_flop_rate_{basis}": figure for dtype, figure in table.items()}
    figures |= {f"fp8_contraction_passes_{basis}": figure for basis, figure in passes.items()}

    def number(key: str) -> float:
        return _needed(figures, key, name)

    return Chip(
        name=name,
        family=document["family"],
        num_cores=int(number("num_cores")),
        tensor_engine=TensorEngine(
            contraction_size=int(number("tensor_contraction_size")),
            stationary_size=int(number("tensor_stationary_size")),
            moving_size=int(number("tensor_moving_size")),
            clock=number("tensor_clock"),
        ),
        flop_rate={d: f.value for d, f in rates.items() if f is not None and f.value is not None},
        sparse_flop_rate={basis: {d: f.number() for d, f in table.items()} for basis, table in sparse.items()},
        sparsity_patterns=tuple(document["sparsity_patterns"]),
        fp8_contraction_passes={basis: f.number() for basis, f in passes.items()},
        hbm_bytes=number("hbm_bytes"),
        hbm_bandwidth=number("hbm_bandwidth"),
        sbuf_bytes=number("sbuf_bytes"),
        vector_element_rate=number("vector_element_rate"),
        scalar_element_rate=number("scalar_element_rate"),
        figures=figures,
    )


@cache
def load_system(name: str) -> System:
    """System from its file, with its chip.

    Raises UnknownNameError (no such system); DataError (the file leaves a needed figure out).
    """
    document = _named(name, "system")
    figures = _figures(document, "figures", name)

    def number(key: str) -> float:
        return _needed(figures, key, name)

    num_chips = int(number("num_chips"))
    return System(
        name=name,
        title=document["title"],
        chip=load_chip(document["chip"]),
        num_chips=num_chips,
        num_instances=int(number("num_instances")),
        interconnect=document["interconnect"],
        torus_shape=(int(number("torus_x_size")), int(number("torus_y_size")), int(number("torus_z_size"))),
        link_bandwidth=(number("link_x_bandwidth"), number("link_y_bandwidth"), number("link_z_bandwidth")),
        nic_bandwidth=number("nic_bandwidth") / num_chips,
        supports_lnc=document["supports_lnc"],
        prices=_figures(document, "prices", name),
        default_price_option=document["default_price_option"],
        default_profiles=document["default_profiles"],
        extra=document["extra"],
        figures=figures,
    )


@cache
def _document(name: str) -> Mapping[str, Any]:
    return read_toml(FOLDER, f"{name}.toml")


def _named(name: str, kind: str) -> Mapping[str, Any]:
    names = hardware_names(kind)
    if name not in names:
        raise UnknownNameError(kind, name, "one of " + ", ".join(names), f"choose a listed {kind}")
    return _document(name)


def _figures(document: Mapping[str, Any], key: str, name: str) -> dict[str, Figure]:
    return {k: read_figure(table, f"hardware {name}, {key}.{k}") for k, table in document.get(key, {}).items()}


def _needed(figures: Mapping[str, Figure], key: str, name: str) -> float:
    if key not in figures:
        message = f"hardware {name}: the figure {key} is missing"
        raise DataError(message)
    return figures[key].number()
