"""Serving: prefill and decode passes, steady state, memory, drafts and operating points."""
