"""Transformer architectures as frozen values; the catalog lives in data/models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Low-rank sizes of multi-head latent attention (MLA)."""

    query_rank: int
    latent_size: int
    rope_size: int
    nope_head_size: int
    value_head_size: int


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention block; `window` 0 means every earlier token is seen."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    window: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    rotary: bool = True
    sinks: bool = False
    latent: LatentAttention | None = None


@dataclass(frozen=True, slots=True)
class Mlp:
    """Dense feed-forward block: gated (three matrices) or plain (two)."""

    ffn_size: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Moe:
    """Mixture of experts: routed experts, shared experts that every token visits, and the router."""

    num_experts: int
    experts_per_token: int
    ffn_size: int
    gated: bool = True
    bias: bool = False
    shared_ffn_size: int = 0
    router_bias: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One kind of transformer layer."""

    name: str
    attention: Attention
    feed_forward: Mlp | Moe


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder-only transformer.

    `layer_kinds` lists the distinct layers; `layer_sequence` gives, for each layer from the first to the last,
    the index of its kind.
    """

    name: str
    hidden_size: int
    vocab_size: int
    layer_kinds: tuple[Layer, ...]
    layer_sequence: tuple[int, ...]
    tied_embeddings: bool = False
    learned_positions: int = 0
    layer_norm: bool = False
    dropout: bool = False
    lm_head_bias: bool = False
    max_sequence_length: int = 131072
    source: str = ""
    title: str = ""

    @property
    def num_layers(self) -> int:
        """Number of transformer layers.

        Returns
        -------
        int
            Length of the layer sequence.
        """
        return len(self.layer_sequence)
