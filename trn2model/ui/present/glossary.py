"""Terms of the field as this model uses them."""

from __future__ import annotations

from typing import Final

TERMS: Final = (
    ("chip", "One accelerator: a Trainium2 has 8 NeuronCores and 96 GiB of HBM."),
    ("instance", "What one rents as trn2.48xlarge: 16 chips in a 4×4 torus."),
    ("UltraServer", "Four instances whose chips of equal (x, y) are joined in rings along z: 64 chips, 4×4×4."),
    ("EFA", "Network between systems; every byte that leaves a torus or a switch crosses it."),
    ("logical core, LNC", "One or two NeuronCores seen as one rank; LNC 2 gives 4 ranks per Trainium2."),
    ("rank", "What runs one copy of the program: a logical core, or a whole GPU."),
    ("tp, cp, ep, dp, pp", "Degrees of tensor, context, expert, data and pipeline parallelism."),
    ("group", "Ranks that differ only along one axis and talk to each other for it."),
    ("placement", "Order in which the axes fill the machine; the first one gets neighbouring cores."),
    ("microbatch", "Sequences that one replica takes through the layers at a time."),
    ("bubble", "Time in which a pipeline stage waits for its first or after its last microbatch."),
    ("exposed communication", "Time on the links that no computation hides; link time counts all of it."),
    ("MFU", "Model FLOP without recompute over the dense peak of all rented chips in the compute format."),
    ("HFU", "As MFU, with the FLOP of recompute counted."),
    (
        "algbw, busbw",
        "Bytes over time of a collective; busbw multiplies by the operation's factor, as nccom-test does.",
    ),
    (
        "Tensor, Vector, Scalar engine",
        "Parts of a NeuronCore for matmuls, for element-wise work, and for functions such as exp.",
    ),
    ("SBUF", "On-chip memory of a core from which the engines read."),
    ("HBM", "Memory of the device. Capacity is given in GiB (2^30 B), rates in GB/s and TB/s (10^9, 10^12 B/s)."),
    ("operational intensity", "FLOP of an operator per byte it moves to or from HBM."),
    ("dense, sparse N:M", "N of every M weights are kept; speeds are counted in FLOP of the dense product."),
    (
        "ideal, achievable",
        "Profiles: published peaks as if always reached, and what the best measured kernels and links reach.",
    ),
    (
        "published, derived, measured, assumed",
        "Status of a figure: printed by its source, computed from printed ones, timed, or ours.",
    ),
)
