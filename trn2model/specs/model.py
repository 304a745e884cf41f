"""Transformer architectures as frozen values; the catalog lives in data/models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Low-rank sizes of multi-head latent attention (MLA); `query_rank` 0 projects queries directly."""

    query_rank: int
    latent_size: int
    rope_size: int
    nope_head_size: int
    value_head_size: int


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention block.

    `window` 0 means every earlier token is seen, otherwise each token sees the last `window` ones, itself
    included. `value_head_size` 0 means values are as wide as keys. `output_gate` is a query-shaped projection
    that scales the heads' outputs. `qk_norm` normalises each head (weights of one head size), or with
    `qk_norm_full` all heads together.
    """

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
    value_head_size: int = 0
    output_gate: bool = False
    qk_norm_full: bool = False


@dataclass(frozen=True, slots=True)
class Mlp:
    """Dense feed-forward block: gated (three matrices) or plain (two)."""

    ffn_size: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Moe:
    """Mixture of experts: routed experts, shared experts that every token visits, and the router.

    `ffn_size` is one expert's width, `shared_ffn_size` that of all shared experts together. `shared_gate` scales
    the shared experts by a learned gate. With `num_expert_groups` above 1, a token's experts come from at most
    `groups_per_token` groups of neighbouring experts.
    """

    num_experts: int
    experts_per_token: int
    ffn_size: int
    gated: bool = True
    bias: bool = False
    shared_ffn_size: int = 0
    router_bias: bool = False
    shared_gate: bool = False
    num_expert_groups: int = 1
    groups_per_token: int = 1


@dataclass(frozen=True, slots=True)
class Layer:
    """One kind of transformer layer; `num_norms` counts its hidden-size norms, those inside attention apart."""

    name: str
    attention: Attention
    feed_forward: Mlp | Moe
    num_norms: int = 2


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder-only transformer.

    `layer_kinds` lists the distinct layers; `layer_sequence` gives, for each layer from the first to the last,
    the index of its kind. `layer_norm` means norms that subtract the mean, with a bias if `norm_bias`; otherwise
    norms are root-mean-square with a weight alone. `learned_positions` is the length of a learned position table.
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
    norm_bias: bool = True
    status: str = "published"
    note: str = ""

    @property
    def num_layers(self) -> int:
        """Number of transformer layers."""
        return len(self.layer_sequence)

    @property
    def layer_counts(self) -> tuple[int, ...]:
        """Number of layers of each kind."""
        return tuple(self.layer_sequence.count(index) for index in range(len(self.layer_kinds)))

    @property
    def has_experts(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(layer.feed_forward, Moe) for layer in self.layer_kinds)


def uniform_model(name: str, hidden_size: int, vocab_size: int, num_layers: int, layer: Layer) -> ModelSpec:
    """Model whose layers are all alike, with untied embeddings and root-mean-square norms."""
    return ModelSpec(name, hidden_size, vocab_size, (layer,), (0,) * num_layers)
