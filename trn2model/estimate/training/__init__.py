"""The training step: compute, schedule, memory, gradients and the run as a whole."""
