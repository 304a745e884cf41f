"""KV cache of an architecture, whole and per rank."""

from __future__ import annotations

import numpy as np

from trn2model.formulas import Numeric
from trn2model.model.parameters import kv_heads_per_rank, sum_layers, value_size
from trn2model.specs.model import Attention, ModelSpec


def kv_replication(attention: Attention, tp: Numeric) -> Numeric:
    r"""How many times the key/value cache is held over a tensor-parallel group.

    .. math:: r = tp\,K_{rank}/K
    """
    copies = 1 if attention.latent is not None else attention.num_kv_heads
    return np.asarray(tp, dtype=np.float64) * kv_heads_per_rank(attention, tp) / copies


def kv_elements_per_token(attention: Attention) -> float:
    """Cached elements of one token in one layer, each head once."""
    if attention.latent is not None:
        return float(attention.latent.latent_size + attention.latent.rope_size)
    return float(attention.num_kv_heads * (attention.head_size + value_size(attention)))


def kv_bytes_per_token(model: ModelSpec, kv_element_bytes: float, tp: Numeric | None = None) -> Numeric:
    """Bytes of KV cache that one more token writes over all layers [B]."""
    return kv_bytes(model, 1.0, kv_element_bytes, tp)


def kv_bytes(model: ModelSpec, tokens: Numeric, kv_element_bytes: float, tp: Numeric | None = None) -> Numeric:
    r"""Bytes of KV cache of one sequence [B].

    .. math:: \sum_{layers} \min(tokens, window)\,e\,b\,r/tp
    """
    return sum_layers(
        model,
        lambda layer: (
            kv_elements_per_token(layer.attention)
            * kv_element_bytes
            * windowed_tokens(tokens, layer.attention)
            * (1.0 if tp is None else kv_replication(layer.attention, tp) / tp)
        ),
    )


def windowed_tokens(tokens: Numeric, attention: Attention) -> Numeric:
    """Tokens that stay visible to an attention block [token]."""
    return np.minimum(tokens, attention.window) if attention.window else tokens
