"""The list of planted faults stays true: each place is there once, and the fault is still Python."""

from __future__ import annotations

import ast

import pytest

from tests.mutations import MUTATIONS, Mutation, planted_text


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.path}: {mutation.kind}")
def test_a_fault_can_be_planted(mutation: Mutation) -> None:
    ast.parse(planted_text(mutation))


def test_there_are_faults_of_every_kind() -> None:
    assert {mutation.kind for mutation in MUTATIONS} >= {"sign", "factor 2", "wrong axis", "dropped term"}
    assert len(MUTATIONS) >= 12
