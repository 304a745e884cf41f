"""Model FLOP of an architecture: what the mathematics needs, without recompute, padding or replication."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from trn2model.estimate.model.kv_cache import windowed_tokens
from trn2model.estimate.model.parameters import idle_parameters, layer_matrices, sum_layers, value_size
from trn2model.formulas import Numeric, attention
from trn2model.specs.model import Attention, Layer, ModelSpec


def attention_flop_per_token(spec: Attention, context: Numeric) -> Numeric:
    r"""Forward FLOP of scores and weighted sum for one token in one layer [FLOP].

    .. math:: 2 H (d_{qk} + d_v) \min(c, window)
    """
    return _attention_flop(spec, windowed_tokens(context, spec))


@lru_cache(maxsize=256)
def weight_flop_per_token(model: ModelSpec) -> float:
    r"""Forward FLOP of one token in the weights it visits [FLOP].

    .. math:: 2 P_{matrices,active} + 2 V D
    """
    layers = sum_layers(model, lambda layer: _visited_matrices(layer, model))
    return float(2.0 * layers + 2.0 * model.vocab_size * model.hidden_size)


def forward_flop_per_token(model: ModelSpec, context: Numeric) -> Numeric:
    r"""Forward FLOP of one token that attends to a given context, as in decode [FLOP].

    .. math:: 2 P_{matrices,active} + 2 V D + \sum_{layers} 2 H (d_{qk} + d_v) \min(c, window)
    """
    return weight_flop_per_token(model) + sum_layers(
        model, lambda layer: attention_flop_per_token(layer.attention, context)
    )


def forward_attention_flop(model: ModelSpec, sequences: Numeric, sequence_length: Numeric) -> Numeric:
    """Causal attention FLOP of a forward pass over whole sequences [FLOP]."""
    return sequences * sum_layers(model, lambda layer: _causal_flop(layer.attention, sequence_length))


def forward_flop(model: ModelSpec, sequences: Numeric, sequence_length: Numeric) -> Numeric:
    """Model FLOP of a forward pass over whole sequences: weights and causal attention [FLOP]."""
    weights = np.multiply(sequences, sequence_length, dtype=np.float64) * weight_flop_per_token(model)
    return weights + forward_attention_flop(model, sequences, sequence_length)


def _attention_flop(spec: Attention, pairs: Numeric) -> Numeric:
    latent = spec.latent
    key_size = spec.head_size if latent is None else latent.nope_head_size + latent.rope_size
    return attention.attention_flop(pairs, spec.num_heads, key_size, value_size(spec))


def _causal_flop(spec: Attention, sequence_length: Numeric) -> Numeric:
    length = np.asarray(sequence_length, dtype=np.float64)
    return _attention_flop(spec, attention.attention_pairs(length, length, float(spec.window)))


def _visited_matrices(layer: Layer, model: ModelSpec) -> float:
    matrices = layer_matrices(layer, model)
    return matrices.total - idle_parameters(layer, matrices)
