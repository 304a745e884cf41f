"""Mixture of experts in training, by rule: parameters per rank, FLOP, bytes, and the links they ride."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.model.estimate import estimate
from trn2model.model.stages import parameter_shares, stage_table
from trn2model.specs import catalog
from trn2model.specs.model import Moe
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

MODELS = ("mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3")
#: Published: layers with experts, experts, experts per token, hidden size, expert width.
PUBLISHED = {
    "mixtral-8x7b": (32, 8, 2, 4096, 14336),
    "qwen3-235b-a22b": (94, 128, 8, 4096, 1536),
    "deepseek-v3": (58, 256, 8, 7168, 2048),
}
SYSTEM = {"system": "trn2-ultraserver", "global_batch_size": 2048, "sequence_length": 4096}


def _shares(model: str, tp: int, ep: int) -> tuple[float, float]:
    resolved = resolve(Scenario(model=model, tp=tp, ep=ep, **SYSTEM))  # type: ignore[arg-type]
    dense, expert = parameter_shares(resolved, stage_table(resolved.model, 1.0, 1.0))
    return float(dense.parameters[0]), float(expert.parameters[0])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("tp", "ep"), [(1, 1), (4, 1), (1, 8), (4, 8), (8, 4)])
def test_ep_divides_experts_and_nothing_else(model: str, tp: int, ep: int) -> None:
    layers, experts, _, hidden, width = PUBLISHED[model]
    dense, expert = _shares(model, tp, ep)
    assert expert == layers * experts * 3 * hidden * width / (ep * tp)
    assert dense == _shares(model, tp, 1)[0]


@pytest.mark.parametrize("model", MODELS)
def test_norms_and_routers_are_whole_on_every_rank(model: str) -> None:
    """What tp does not divide is left when tp grows: P(tp) = divided/tp + whole."""
    spec = catalog.model(model)
    kv_heads = min(kind.attention.num_kv_heads for kind in spec.layer_kinds)
    low, high = 1, min(kv_heads, 8)
    one, many = _shares(model, low, 1)[0], _shares(model, high, 1)[0]
    whole = (high * many - one) / (high - 1)
    layers, experts, _, hidden, _ = PUBLISHED[model]
    assert whole >= layers * experts * hidden  # routers
    assert whole < 0.03 * one or spec.layer_kinds[0].attention.latent is not None


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("tp", "ep"), [(4, 8), (8, 4)])
def test_expert_flop_and_dispatch_bytes(model: str, tp: int, ep: int) -> None:
    """A rank computes k experts for as many tokens as it brings; dispatch sends k copies of its shard of them."""
    layers, _, per_token, hidden, width = PUBLISHED[model]
    result = estimate(Scenario(model=model, tp=tp, ep=ep, **SYSTEM))  # type: ignore[arg-type]
    tokens, rounds = 4096, float(result.resolved.plan.num_microbatches)
    names = np.array(result.operators.names)
    rows = [i for i, name in enumerate(names) if name in ("expert_gate_up", "expert_down")]
    executed = float((result.operators.flop[rows] * result.operator_count[rows]).sum())
    assert executed == pytest.approx(2 * tokens * per_token * 3 * hidden * width / tp * layers * rounds, rel=1e-9)
    (dispatch,) = [use for use in result.communication if use.axis == "ep"]
    assert dispatch.op == "all_to_all"
    assert dispatch.bytes == tokens / tp * per_token * hidden * 2
    assert dispatch.count == 4 * layers * rounds


def test_imbalance_and_capacity_scale_the_busiest_expert() -> None:
    even, busy = (estimate(Scenario(model="mixtral-8x7b", tp=8, ep=8, moe_imbalance=m, **SYSTEM)) for m in (1.0, 1.5))  # type: ignore[arg-type]
    rows = [i for i, name in enumerate(even.operators.names) if name == "expert_down"]
    assert busy.operators.flop[rows] == pytest.approx(1.5 * even.operators.flop[rows])
    bytes_of = [next(u.bytes for u in result.communication if u.axis == "ep") for result in (even, busy)]
    assert bytes_of[1] == 1.5 * bytes_of[0]


@pytest.mark.parametrize(("ep", "axes"), [(4, {0}), (16, {0, 1}), (64, {0, 1, 2})])
def test_all_to_all_rides_the_links_its_group_spans(ep: int, axes: set[int]) -> None:
    """tp 4 fills a chip; then ep 4 is a row, 16 an instance, 64 the UltraServer."""
    result = estimate(Scenario(model="qwen3-235b-a22b", tp=4, ep=ep, **SYSTEM))  # type: ignore[arg-type]
    loads = result.link_load.by_axis["ep"]
    fabric = result.network.fabric
    assert {int(axis) for axis in np.unique(fabric.link_axis[loads > 0])} == axes


def test_the_model_says_what_was_published() -> None:
    for name, (layers, experts, per_token, hidden, width) in PUBLISHED.items():
        spec = catalog.model(name)
        blocks = [(kind.feed_forward, n) for kind, n in zip(spec.layer_kinds, spec.layer_counts, strict=True)]
        moe = [(block, n) for block, n in blocks if isinstance(block, Moe)]
        assert sum(n for _, n in moe) == layers
        assert all((b.num_experts, b.experts_per_token, b.ffn_size) == (experts, per_token, width) for b, _ in moe)
        assert spec.hidden_size == hidden
