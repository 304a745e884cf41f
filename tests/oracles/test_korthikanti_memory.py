"""Memory of transformer blocks printed by Korthikanti et al., Figure 1, through the estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trn2model.model.calls import plan_network
from trn2model.model.stages import parameter_shares, stage_table, training_optimizer
from trn2model.model.training.compute import training_work
from trn2model.model.training.memory import stage_memory
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import Scenario
from trn2model.units import GIB

MODELS: dict[str, dict[str, Any]] = {
    "megatron-22b": {"count": 1, "microbatch_size": 4, "global_batch_size": 4},
    "gpt3-175b": {"count": 8, "pp": 8, "interleave": 3, "global_batch_size": 64},
    "megatron-530b": {"count": 35, "pp": 35, "interleave": 3, "global_batch_size": 280},
    "megatron-1t": {"count": 64, "pp": 64, "global_batch_size": 512},
}
#: GiB of parameters with gradients and optimizer, of all activations, and of those with selective recompute and SP
PRINTED = {
    "megatron-22b": (45.5625, 59.25, 9.5625),
    "gpt3-175b": (45.5625, 66.84375, 12.3515625),
    "megatron-530b": (31.640625, 114.0234375, 23.076171875),
    "megatron-1t": (32.958984375, 131.25, 26.5625),
}


def _block_memory(resolved: Resolved) -> tuple[float, float]:
    """Parameters with gradients and optimizer, and activations, of the transformer blocks alone on the fullest rank."""
    plan, work = resolved.plan, training_work(resolved)
    stages = stage_table(resolved.model, plan.pp, plan.interleave)
    counts = stages.counts.copy()
    counts[:, -2:] = 0.0
    blocks = replace(stages, counts=counts)
    shares = parameter_shares(resolved, blocks, network=plan_network(resolved))
    parts = stage_memory(resolved, blocks, work, shares, adam=training_optimizer(resolved)).parts
    states = parts["weights"] + parts["gradients"] + parts["optimizer"]
    return float(states.max()), float(parts["activations"].max())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("selective", [False, True])
def test_figure_1(name: str, selective: bool) -> None:
    """Within 2 %; the paper counts matrices alone (12·h²·L), here norms and biases are in."""
    scenario = Scenario(
        model=name,
        system="p4de.24xlarge",
        tp=8,
        dp=1,
        zero=0,
        sequence_length=2048,
        precision="fp16",
        attention_kernel="naive",
        recompute="selective" if selective else "none",
        sequence_parallel=selective,
        **MODELS[name],
    )
    kept, activations = _block_memory(resolve(scenario))
    states, whole, reduced = PRINTED[name]
    assert kept / GIB == pytest.approx(states, rel=2e-3)
    assert activations / GIB == pytest.approx(reduced if selective else whole, rel=1e-6)
