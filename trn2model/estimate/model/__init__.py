"""What a model holds and asks for: parameters, FLOP, KV cache, training states."""
