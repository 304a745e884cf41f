"""What the `models` command says of one architecture."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from trn2model.errors import InvalidInputError
from trn2model.estimate.model.flop import attention_flop_per_token, forward_flop_per_token
from trn2model.estimate.model.kv_cache import kv_bytes, kv_bytes_per_token
from trn2model.estimate.model.parameters import layer_parameters, model_parameters, sum_layers
from trn2model.specs.model import ModelSpec
from trn2model.specs.provenance import sources

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
    >>> from trn2model.specs.model_file import load_model
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
