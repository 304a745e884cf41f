"""Kernels alone: what the command line prints, with the launch that a measurement's source states."""

from __future__ import annotations

import pytest

from trn2model.network.collective import collective_report
from trn2model.specs import catalog
from trn2model.specs.profile import profile
from trn2model.validation.kernels import KernelPrediction, kernel_prediction
from trn2model.validation.measurements import Measurement, measurements


def timed(layer: str) -> list[tuple[Measurement, KernelPrediction]]:
    """Collectives of one layer on Trainium2 with their predictions."""
    used = [row for row in measurements("collective") if row.use != "excluded" and row.text("layer") == layer]
    found = [(row, kernel_prediction(row, profile("achievable"))) for row in used if "trn2" in row.text("system")]
    return [(row, one) for row, one in found if isinstance(one, KernelPrediction)]


def test_device_rows_are_compared_with_what_the_command_line_prints() -> None:
    permutes = [(row, one) for row, one in timed("device") if row.text("op") == "permute"]
    assert permutes
    for row, one in permutes:
        system, lnc, ranks = catalog.system(row.text("system")), round(row.number("lnc")), round(row.number("ranks"))
        report = collective_report("permute", system, 1, lnc, ranks=ranks, message_bytes=row.number("bytes"))
        assert one.predicted == pytest.approx(report["time"])


def test_point_to_point_on_a_die_is_within_fifteen_percent_at_both_ends() -> None:
    permutes = [(row.number("bytes"), one) for row, one in timed("device") if row.text("op") == "permute"]
    ratios = {size: one.predicted / one.measured for size, one in permutes}
    assert ratios[4096.0] == pytest.approx(1.0, abs=0.15)
    assert ratios[2.0**28] == pytest.approx(1.0, abs=0.15)


def test_kernel_rows_carry_the_launch_their_source_states() -> None:
    launched = [(row, one) for row, one in timed("kernel") if row.values["launch_time"] is not None]
    assert launched
    assert all(one.predicted > row.number("launch_time") for row, one in launched)


def test_lone_ranks_of_several_machines_are_not_compared() -> None:
    spread = [row for row in measurements("collective") if row.values["ranks_per_machine"] is not None]
    assert spread
    assert not any(isinstance(kernel_prediction(row, profile("achievable")), KernelPrediction) for row in spread)
