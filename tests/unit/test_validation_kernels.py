"""Errors of the model on collectives alone."""

from __future__ import annotations

import pytest

from trn2model.network.collective import collective_report
from trn2model.specs import catalog
from trn2model.validation.kernels import collective_errors


def test_device_rows_are_compared_with_what_the_command_line_prints() -> None:
    errors = collective_errors()
    assert {one.row.values["layer"] for one in errors} == {"device"}
    permute = [one for one in errors if one.row.text("op") == "permute"]
    assert permute
    for one in permute:
        system = catalog.system(one.row.text("system"))
        lnc, ranks = round(one.row.number("lnc")), round(one.row.number("ranks"))
        report = collective_report("permute", system, 1, lnc, ranks=ranks, message_bytes=one.row.number("bytes"))
        assert one.estimated == pytest.approx(report["time"])
        assert one.error == pytest.approx(report["time"] / one.measured - 1.0)


def test_point_to_point_on_a_die_is_within_fifteen_percent_at_both_ends() -> None:
    ends = {one.row.number("bytes"): one.error for one in collective_errors() if one.row.text("op") == "permute"}
    assert abs(ends[4096.0]) < 0.15
    assert abs(ends[2.0**28]) < 0.15


def test_kernel_rows_carry_the_launch_their_source_states() -> None:
    rows = [one for one in collective_errors(("kernel",)) if one.row.values["launch_time"] is not None]
    assert rows
    assert all(one.estimated > one.row.number("launch_time") for one in rows)


def test_excluded_rows_and_lone_ranks_are_left_out() -> None:
    rows = [one.row for one in collective_errors(("device", "kernel", "framework"))]
    assert rows
    assert "excluded" not in {row.use for row in rows}
    assert {row.values.get("ranks_per_machine") for row in rows} == {None}


def test_a_profile_can_be_forced() -> None:
    ideal = collective_errors(("device",), "ideal")
    usual = collective_errors(("device",))
    assert all(a.estimated < b.estimated for a, b in zip(ideal, usual, strict=True))
