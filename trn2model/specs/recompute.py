"""What a training step keeps for its backward pass: groups of a layer's operators, by name."""

from __future__ import annotations

from typing import Final

#: Group of a layer's operators whose outputs a scenario may keep, and the operators that belong to it.
SAVEABLE: Final = {
    "norm": ("attention_norm", "mlp_norm"),
    "qkv": ("qkv", "qk_norm", "rotary", "query_down", "query_up", "kv_down", "kv_up"),
    "attention": ("attention",),
    "output": ("output", "attention_residual"),
    "up": ("router", "route", "up", "gate_up", "expert_up", "expert_gate_up", "shared_up", "shared_gate_up"),
    "activation": ("activation", "expert_activation", "shared_activation"),
    "down": ("down", "expert_down", "shared_down", "combine", "mlp_residual"),
}

EVERYTHING: Final = frozenset(SAVEABLE)


def saved_groups(recompute: str, saved_operators: str | None) -> frozenset[str]:
    """Groups whose outputs are kept.

    Examples
    --------
    >>> sorted(saved_groups("full", "qkv,attention"))
    ['attention', 'qkv']
    """
    if recompute != "full":
        return EVERYTHING
    return frozenset(saved_operators.split(",")) if saved_operators else frozenset()


def redone_operators(saved: frozenset[str]) -> frozenset[str]:
    """Operators of a layer that run again because their outputs are not kept."""
    return frozenset(name for group, names in SAVEABLE.items() if group not in saved for name in names)
