"""Serving: passes, memory, full replicas in steady state, sweeps."""
