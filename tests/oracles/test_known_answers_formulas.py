"""Known answers that formulas alone decide, each by the general rule it stands for."""

from __future__ import annotations

import pytest

from trn2model.formulas import attention, matmul, memory, moe, pipeline

GIB = 2.0**30
TFLOP = 1e12


def mlp_flop(tokens, hidden, ffn, gated=True):
    """Forward FLOP of an MLP of two or three matrices."""
    inward = matmul.gemm_flop(tokens, hidden, ffn) * (2.0 if gated else 1.0)
    return inward + matmul.gemm_flop(tokens, ffn, hidden)


def training_attention_flop(sequences, length, heads, head_size, layers):
    pairs = sequences * layers * attention.attention_pairs(length, length, 0.0)
    return 3.0 * attention.attention_flop(pairs, heads, head_size, head_size)


def test_k09_swiglu():
    assert mlp_flop(4096.0, 4096.0, 11008.0) == 1108101562368


def test_k10_top_2_of_8():
    routed = 8.0 * moe.tokens_per_expert(2048.0, 8.0, 2.0, 1.0)
    assert mlp_flop(routed, 4096.0, 14336.0) == 1443109011456


def test_k11_causal_attention_is_half():
    causal = training_attention_flop(4.0, 8192.0, 32.0, 128.0, 32.0)
    whole = 3.0 * attention.attention_flop(4.0 * 32.0 * 8192.0**2, 32.0, 128.0, 128.0)
    assert causal / TFLOP == pytest.approx(211.11, abs=0.005)
    assert whole / TFLOP == pytest.approx(422.21, abs=0.005)
    assert causal == whole / 2


def test_k12_a_training_step_is_weights_and_attention():
    """Weights that take part in a matmul: all layers' matrices and the head, not the embedding table."""
    tokens, hidden = 4.0 * 8192.0, 4096.0
    layer = 4.0 * matmul.gemm_flop(tokens, hidden, hidden) + mlp_flop(tokens, hidden, 11008.0)
    weights = 3.0 * (32.0 * layer + matmul.gemm_flop(tokens, hidden, 32000.0))
    assert weights / TFLOP == pytest.approx(1299.00, abs=0.005)
    attention_part = training_attention_flop(4.0, 8192.0, 32.0, 128.0, 32.0)
    assert (weights + attention_part) / TFLOP == pytest.approx(1510.11, abs=0.005)


def test_k13_head_of_one_token():
    assert matmul.gemm_flop(1.0, 2048.0, 128256.0) == 525336576


def test_k14_decode_grows_with_the_context():
    def step(context):
        return 80.0 * attention.attention_flop(attention.attention_pairs(1.0, context, 0.0), 64.0, 128.0, 128.0)

    assert step(3584.0) - step(128.0) == 9059696640 == 4 * 8192 * (3584 - 128) * 80


def test_k15_selective_recompute():
    """Attention as the reference counts it: the whole square, once more forward."""
    s, h, layers, vocab = 2048.0, 12288.0, 96.0, 51200.0
    scores = attention.attention_flop(s * s, 96.0, 128.0, 128.0)
    layer = 4.0 * matmul.gemm_flop(s, h, h) + mlp_flop(s, h, 4.0 * h, gated=False) + scores
    step = 3.0 * (layers * layer + matmul.gemm_flop(s, h, vocab))
    assert layers * scores / step == pytest.approx(0.0090, abs=5e-5)


def gpt_layer_bytes(tokens, context, hidden, heads, tp, sequence_parallel, scores):
    """Activations of one GPT layer in 16 bit with dropout."""
    whole = 2.0 * memory.block_whole_bytes(hidden, 2.0, 1.0)
    divided = memory.attention_divided_bytes(hidden, hidden, hidden, hidden, 2.0)
    divided += memory.mlp_divided_bytes(4.0 * hidden, 0.0, 2.0)
    divided += scores * memory.score_divided_bytes(heads, context, 2.0, 1.0)
    shard_tokens = tokens / tp**sequence_parallel
    return memory.activation_bytes(tokens, shard_tokens, whole, divided, tp)


def test_k22_one_layer_without_recompute():
    s, h, a = 2048.0, 12288.0, 96.0
    assert gpt_layer_bytes(s, s, h, a, 1.0, 0.0, 1.0) == 2868903936 == s * h * (34 + 5 * a * s / h)


def test_k23_one_layer_with_flash_attention():
    assert gpt_layer_bytes(2048.0, 2048.0, 12288.0, 96.0, 1.0, 0.0, 0.0) == 855638016 == 34 * 2048 * 12288


GPT3_BLOCKS = 12.0 * 12288**2 * 96


@pytest.mark.parametrize(("zero_stage", "expected"), [(0.0, 45.5625), (1.0, 18.984)])
def test_k24_k25_model_states(zero_stage, expected):
    per_rank = GPT3_BLOCKS / 64.0
    states = memory.model_state_bytes(per_rank, 2.0, 4.0, 12.0, zero_stage, 8.0)
    assert sum(states) / GIB == pytest.approx(expected, abs=5e-4)


def test_k26_interleaved_activations():
    layer = gpt_layer_bytes(2048.0, 2048.0, 12288.0, 96.0, 8.0, 1.0, 0.0)
    layers = 96.0 / 8.0
    in_flight = pipeline.in_flight_microbatches(8.0, 0.0, 3.0, 64.0)
    assert in_flight == pytest.approx(8 * (1 + 7 / 24), rel=1e-15)
    assert layer * layers * in_flight / GIB == pytest.approx(12.3516, abs=5e-5)


def test_k28_logits():
    assert memory.logits_bytes(2048.0, 50272.0, 8.0, 2.0) == 25739264


@pytest.mark.parametrize(("gradient_bytes", "expected"), [(2.0, 10.69), (2.0 + 4.0, 12.1)])
def test_k29_zero_2(gradient_bytes, expected):
    """2P + 14P/N; the printed 12.1 GB is 2P + 18P/N: an fp32 gradient beside the 16-bit one."""
    states = memory.model_state_bytes(2851e6, 2.0, gradient_bytes, 12.0, 2.0, 8.0)
    assert sum(states) / 1e9 == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("microbatch", "exact", "printed"), [(1, 7 / 71, 0.0986), (2, 7 / 39, 0.1795)])
def test_k32_bubble(microbatch, exact, printed):
    bubble = pipeline.bubble_fraction(8.0, 1.0, 64.0 / microbatch)
    assert bubble == pytest.approx(exact, rel=1e-15)
    assert bubble == pytest.approx(printed, abs=5e-5)


@pytest.mark.parametrize(("batch", "expected"), [(1.0, 2.0), (8.0, 7.20), (64.0, 8.0)])
def test_k34_distinct_experts(batch, expected):
    assert moe.distinct_experts(8.0, 2.0, batch) == pytest.approx(expected, abs=5e-3)


def test_k43_flop_per_context_token():
    per_token = attention.attention_flop(1.0, 64.0, 128.0, 128.0)
    assert per_token == 32768 == 4 * 64 * 128


FIGURE_1 = {
    # model: hidden, layers, heads, microbatch, pp, interleave, GiB of states, of activations without and with
    # selective recompute + sequence parallelism; sequence 2048, tp 8, transformer blocks alone
    "22B": (6144.0, 48.0, 64.0, 4.0, 1.0, 1.0, 45.5625, 59.25, 9.5625),
    "175B": (12288.0, 96.0, 96.0, 1.0, 8.0, 3.0, 45.5625, 66.84375, 12.3515625),
    "530B": (20480.0, 105.0, 128.0, 1.0, 35.0, 3.0, 31.640625, 114.0234375, 23.076171875),
    "1T": (25600.0, 128.0, 160.0, 1.0, 64.0, 1.0, 32.958984375, 131.25, 26.5625),
}


@pytest.mark.parametrize("name", FIGURE_1)
@pytest.mark.parametrize("selective", [0.0, 1.0])
def test_figure_1_of_korthikanti(name, selective):
    """Analytical memory of the first stage (arXiv:2205.05198, Figure 1)."""
    hidden, layers, heads, microbatch, pp, interleave, states, whole, reduced = FIGURE_1[name]
    tokens = 2048.0 * microbatch
    layer = gpt_layer_bytes(tokens, 2048.0, hidden, heads, 8.0, selective, 1.0 - selective)
    in_flight = pipeline.in_flight_microbatches(pp, 0.0, interleave, 1e6)
    activations = layer * layers / pp * in_flight
    assert activations / GIB == pytest.approx(reduced if selective else whole, rel=1e-6)
    parameters = 12.0 * hidden**2 * layers / pp / 8.0
    assert sum(memory.model_state_bytes(parameters, 2.0, 4.0, 12.0, 0.0, 1.0)) / GIB == pytest.approx(states, rel=1e-9)
