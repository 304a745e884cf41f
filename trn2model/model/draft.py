"""The draft model of speculative decoding: where it runs, and what it keeps in HBM."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from trn2model.formulas import Numeric
from trn2model.model.kv_cache import kv_bytes
from trn2model.model.stages import parameter_shares, stage_table
from trn2model.specs.model import ModelSpec
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved

EAGLE: Final = "eagle"


def draft_resolved(resolved: Resolved, draft: ModelSpec) -> Resolved:
    """Scenario as the draft model sees it: the same ranks in one stage, as many of them as divide its heads."""
    plan = resolved.plan
    shared = np.gcd(plan.tp.astype(np.int64), resolved.limits.draft_heads).astype(np.float64)
    ones = np.ones(plan.shape)
    return replace(resolved, model=draft, plan=replace(plan, tp=shared, pp=ones, dp=plan.dp * plan.pp))


def draft_weight_bytes(resolved: Resolved, draft: ModelSpec) -> Numeric:
    """Weights of the draft on every stage; an EAGLE draft uses the embedding and the head of the large model [B]."""
    small = draft_resolved(resolved, draft)
    ones = np.ones(resolved.plan.shape)
    stages = stage_table(draft, ones, ones)
    if resolved.scenario.draft_model == EAGLE:
        layers = stages.counts.copy()
        layers[:, -2:] = 0.0
        stages = replace(stages, counts=layers)
    return np.asarray(np.sum([share.weight_bytes for share in parameter_shares(small, stages)], axis=0))


def draft_kv_bytes(resolved: Resolved, draft: ModelSpec, tokens: Numeric) -> Numeric:
    """Cache of the draft for one sequence [B]."""
    small = draft_resolved(resolved, draft)
    return kv_bytes(draft, tokens, dtype(resolved.kv_dtype).storage_bytes, small.plan.tp) / resolved.plan.cp
