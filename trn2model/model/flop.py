"""Model FLOP of an architecture, without recompute, padding or replication, and what the `models` command says."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

import numpy as np

from trn2model.errors import InvalidInputError
from trn2model.formulas import Numeric, attention
from trn2model.model.kv_cache import kv_bytes, kv_bytes_per_token, windowed_tokens
from trn2model.model.parameters import (
    idle_parameters,
    layer_matrices,
    layer_parameters,
    model_parameters,
    sum_layers,
    value_size,
)
from trn2model.specs.model import Attention, Layer, ModelSpec
from trn2model.specs.provenance import sources


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


#: Width of the storage the report is stated for: two bytes per element.
STORAGE_BYTES: Final = 2.0


def model_report(model: ModelSpec, context: float = 0) -> dict[str, Any]:
    """Size and cost of a model in 16-bit storage, as plain numbers.

    Parameters
    ----------
    model : ModelSpec
        The model.
    context : float
        Tokens that the next token attends to. [token]

    Returns
    -------
    dict
        Parameters, bytes and FLOP, the layers of each kind with their parameters by part, and the source.

    Raises
    ------
    InvalidInputError
        The context is negative.

    Examples
    --------
    >>> from trn2model.specs.model import load_model
    >>> model_report(load_model("llama-3.1-8b"))["parameters"]
    8030261248
    """
    if context < 0:
        raise InvalidInputError("context", context, "0 or more tokens", "give the tokens already seen")
    parameters = model_parameters(model)
    source = sources().get(model.source)
    return {
        "name": model.name,
        "title": model.title,
        "parameters": int(parameters.total),
        "active_parameters": int(parameters.active),
        "kv_bytes_per_token": int(kv_bytes_per_token(model, STORAGE_BYTES)),
        "kv_bytes": int(kv_bytes(model, context, STORAGE_BYTES)),
        "weight_bytes": int(parameters.total * STORAGE_BYTES),
        "forward_flop_per_token": int(forward_flop_per_token(model, context)),
        "attention_flop_per_token": int(
            sum_layers(model, lambda layer: attention_flop_per_token(layer.attention, context))
        ),
        "context": context,
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "max_sequence_length": model.max_sequence_length,
        "tied_embeddings": model.tied_embeddings,
        "embedding_parameters": int(parameters.embedding + parameters.position_embedding),
        "lm_head_parameters": int(parameters.lm_head),
        "layers": [_layer_report(model, index) for index in range(len(model.layer_kinds))],
        "source": model.source if source is None else source.locator,
        "status": model.status,
        "note": model.note,
    }


def _layer_report(model: ModelSpec, index: int) -> dict[str, Any]:
    layer = model.layer_kinds[index]
    parts = layer_parameters(layer, model)
    return {
        **asdict(layer),
        "count": model.layer_counts[index],
        "parameters": int(parts.total),
        "parameters_by_part": {name: int(value) for name, value in parts._asdict().items()},
    }
