"""A training step: compute, gradients, pipeline, memory, the whole run."""
