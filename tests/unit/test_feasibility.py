"""Remedies on memory: levers of the workload that are not pulled yet."""

from __future__ import annotations

from typing import Any

import pytest

from trn2model.model.estimate import estimate
from trn2model.model.feasibility import memory_violations
from trn2model.model.result import MemoryUse
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

BOX: dict[str, Any] = {"model": "llama-3.1-70b", "system": "trn2.48xlarge"}
MIXTURE: dict[str, Any] = {"model": "qwen3-235b-a22b", "system": "trn2-ultraserver"}
CHAIN: dict[str, Any] = {"model": "llama-3.1-8b", "draft_model": "llama-3.1-70b", "draft_tokens": 4, "acceptance": 0.6}


def remedy(workload: Any, largest: str, **changes: Any) -> str:
    """Remedy where one part takes nearly all of HBM."""
    parts = {"weights": 1.0, largest: 9.0}
    (violation,) = memory_violations(MemoryUse(10.0, 16.0, parts), resolve(Scenario(**{**BOX, **changes}), workload))
    return violation.remedy


@pytest.mark.parametrize(
    ("workload", "largest", "changes", "said", "unsaid"),
    [
        ("serve", "weights", {"tp": 2}, ["raise tp or pp", "fp8 or int8"], ["ZeRO", "ep", "systems"]),
        ("serve", "weights", {"tp": 2, "weight_dtype": "int8"}, ["raise tp or pp"], ["fp8", "int8"]),
        ("serve", "weights", {"tp": 2, "precision": "fp8"}, ["raise tp or pp"], ["fp8", "int8"]),
        ("serve", "weights", {**MIXTURE, "tp": 4}, ["raise tp, pp or ep"], ["ZeRO"]),
        ("serve", "weights", {"tp": 64, "dp": 1}, ["raise pp with more systems"], ["tp"]),
        ("serve", "kv_cache", {"tp": 4}, ["lower the concurrency", "raise tp, cp or pp", "fp8 KV"], ["batch"]),
        ("serve", "kv_cache", {"tp": 8}, ["raise cp or pp"], ["tp"]),
        ("serve", "kv_cache", {"kv_dtype": "fp8"}, ["lower the concurrency", "shorten the context"], ["fp8"]),
        ("serve", "kv_cache", {"concurrency": 1}, ["shorten the context"], ["concurrency", "compiled"]),
        (
            "serve",
            "kv_cache",
            {"concurrency": 1, "compiled_batch": 64},
            ["lower the compiled batch (64 for a concurrency of 1)"],
            ["lower the concurrency"],
        ),
        ("serve", "logits", {"tp": 4}, ["lower the concurrency", "raise tp"], ["microbatch"]),
        ("serve", "activations", {"tp": 4}, ["set a prefill chunk", "raise tp"], ["microbatch", "recompute"]),
        ("serve", "buffers", {"prefill_chunk": 512}, ["use a smaller prefill chunk", "raise cp"], ["microbatch"]),
        ("serve", "buffers", {"input_tokens": 16, "concurrency": 999}, ["lower the concurrency"], ["chunk"]),
        ("serve", "reserve", {}, ["a system with more HBM"], ["lnc"]),
        ("train", "weights", {}, ["raise tp or pp", "use ZeRO 3 to shard the weights"], ["fp8"]),
        ("train", "weights", {"zero": 3}, ["raise dp with more systems"], ["ZeRO", "tp"]),
        ("train", "weights", {"zero": 3, "tp": 4, "dp": 2}, ["raise tp, pp or dp"], ["ZeRO", "systems"]),
        ("train", "weights", {"zero": 3, "zero_group": "instance"}, ["let the ZeRO group span all"], ["use ZeRO"]),
        ("train", "gradients", {}, ["use ZeRO 2"], []),
        ("train", "gradients", {"zero": 2}, ["raise dp"], ["ZeRO"]),
        ("train", "optimizer", {"zero": 0}, ["use ZeRO 1", "adamw-bf16-sr"], []),
        ("train", "optimizer", {}, ["raise dp", "adamw-bf16-sr"], ["ZeRO"]),
        ("train", "optimizer", {"optimizer": "adamw-bf16-sr"}, ["raise dp"], ["adamw", "ZeRO"]),
        ("train", "activations", {}, ["recompute more", "raise"], ["microbatch", "chunk"]),
        ("train", "activations", {"recompute": "full", "microbatch_size": 2}, ["lower the microbatch"], ["recompute"]),
        ("train", "buffers", {}, ["raise cp"], ["microbatch"]),
        ("train", "reserve", {"lnc": 1}, ["lnc 2"], []),
    ],
)
def test_only_what_is_not_done_yet_is_advised(
    workload: str, largest: str, changes: dict[str, Any], said: list[str], unsaid: list[str]
) -> None:
    """Each lever belongs to the workload, and is still there to pull."""
    text = remedy(workload, largest, **changes)
    levers = text.split(": ", 1)[1]
    assert [words for words in said if words not in levers] == []
    assert [words for words in unsaid if words in levers] == []


def test_a_draft_that_outweighs_its_model_is_named() -> None:
    """The large one is drafted with here, which leaves the weights of the model beside the point."""
    (violation,) = estimate(Scenario(**CHAIN, tp=4, pp=1), "serve").violations
    assert "the draft model llama-3.1-70b takes 32.9 of 36.6 GiB; choose a smaller one or none" in violation.remedy
    small: dict[str, Any] = {
        "model": "llama-3.1-70b",
        "draft_model": "llama-3.1-8b",
        "draft_tokens": 4,
        "acceptance": 0.6,
    }
    (violation,) = estimate(Scenario(**small, tp=4), "serve").violations
    assert "draft" not in violation.remedy


@pytest.mark.parametrize("changes", [{"tp": 2}, {"tp": 4, "model": "llama-3.1-405b"}])
def test_what_serving_advises_helps(changes: dict[str, Any]) -> None:
    """Twice the tensor parallelism halves what the remedy on weights is about."""
    before = estimate(Scenario(**{**BOX, **changes}), "serve")
    assert before.violations[0].remedy.startswith("the largest part is weights: raise tp")
    after = estimate(Scenario(**{**BOX, **changes, "tp": 2 * changes["tp"]}), "serve")
    assert after.memory.parts["weights"] == pytest.approx(before.memory.parts["weights"] / 2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("system", "lnc", "name"), [("trn2.48xlarge", 2, "logical core"), ("trn2.48xlarge", 1, "core")]
)
@pytest.mark.parametrize("workload", ["train", "serve"])
def test_a_rank_is_called_by_its_one_name(workload: Any, system: str, lnc: int, name: str) -> None:
    resolved = resolve(Scenario(model="llama-3.1-8b", system=system, tp=8, lnc=lnc), workload)
    (violation,) = memory_violations(MemoryUse(10.0, 16.0, {"weights": 16.0}), resolved)
    assert violation.resource == f"HBM per {name}"
