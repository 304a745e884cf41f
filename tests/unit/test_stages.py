"""Layers of pipeline stages: dealt completely, in order, and evenly."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.model.stages import layers_of_stage, stage_table
from trn2model.specs import catalog


@pytest.mark.parametrize(
    ("layers", "pp", "v"), [(105, 8, 1), (96, 8, 3), (61, 4, 2), (7, 7, 1), (126, 9, 1), (5, 1, 1)]
)
def test_every_layer_stands_on_one_stage(layers: int, pp: int, v: int) -> None:
    """No layer is lost or doubled, and chunk sizes differ by one at most."""
    stages = layers_of_stage(layers, pp, v)
    assert sorted(layer for stage in stages for layer in stage) == list(range(layers))
    sizes = [len(stage) for stage in stages]
    assert max(sizes) - min(sizes) <= v


def test_heaviest_stage_of_105_layers() -> None:
    """K31."""
    assert max(len(stage) for stage in layers_of_stage(105, 8, 1)) == 14


def test_tables_of_a_batch_equal_the_single_tables() -> None:
    """Leading dense layers, embedding and head stand on the right stages, whatever else is in the batch."""
    model = catalog.model("deepseek-v3")
    degrees = np.array([1.0, 4.0, 8.0, 4.0])
    batch = stage_table(model, degrees, np.ones(4))
    for column, pp in enumerate(degrees):
        single = stage_table(model, pp, 1.0)
        rows = {tuple(row) for row in batch.counts[..., column]}
        assert rows == {tuple(row) for row in single.counts}
        assert single.counts[:, -2].sum() == single.counts[:, -1].sum() == 1.0
        runs = single.length.astype(int)
        assert runs.sum() == pp
        assert np.repeat(single.counts, runs, axis=0).sum(axis=0).tolist() == [3.0, 58.0, 1.0, 1.0]
        assert (batch.length[:, column] > 0).sum() == len(runs)
    assert batch.totals[:, 0].tolist() == [3.0, 58.0, 1.0, 1.0]
