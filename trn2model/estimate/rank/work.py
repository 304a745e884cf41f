"""What one rank computes in one pass: the link between plans or requests and the operators."""

from __future__ import annotations

from dataclasses import dataclass

from trn2model.formulas import Numeric, moe
from trn2model.specs.model import Moe
from trn2model.specs.numerics import dtype


@dataclass(frozen=True, slots=True)
class RankWork:
    """What one rank computes in one pass: tokens, contexts and its share of the model.

    `tokens` are the rows of its GEMMs; `shard_tokens` those of operators outside the tensor-parallel region
    (fewer under sequence parallelism); `routed_tokens` come from all expert-parallel ranks together. `query_tokens` and
    `context_tokens` are per sequence and whole, `cp` ranks share the pairs. `span_tokens` above the queries: the pass
    is the mean of many whose queries cover a stretch of that many positions around these. `decode` reads the context of
    the KV cache and absorbs the MLA projections. `expert_padding` 1 reads one expert for every routed token, however
    many tokens share an expert. In decode a row of scores stays in one of `lanes`; `lane_padding` 1 waits for the idle
    ones too. `kv_expansion` 1 reads keys and values once for every query head; `dense_experts` 1 runs every expert on
    every token of a prompt and adds up all their outputs in `expert_sum_passes`.
    """

    tokens: Numeric
    shard_tokens: Numeric
    sequences: Numeric
    query_tokens: Numeric
    context_tokens: Numeric
    tp: Numeric
    cp: Numeric
    ep: Numeric
    routed_tokens: Numeric
    element_bytes: float
    kv_element_bytes: float
    moe_imbalance: Numeric
    flash: bool
    decode: bool
    query_block: float
    span_tokens: Numeric = 0.0
    expert_padding: float = 0.0
    lanes: float = 1.0
    lane_padding: float = 0.0
    kv_expansion: float = 0.0
    dense_experts: float = 0.0
    expert_sum_passes: float = 1.0


def activation_bytes(precision: str) -> float:
    """Bytes per element of activations between operators: fp8 matmuls keep 16-bit activations [B]."""
    return max(dtype(precision).storage_bytes, dtype("bf16").storage_bytes)


def expert_imbalance(spec: Moe, work: RankWork) -> Numeric:
    """Load of the busiest expert over the mean, as far as routing can take it."""
    return moe.bounded_imbalance(work.moe_imbalance, float(spec.num_experts), float(spec.experts_per_token))
