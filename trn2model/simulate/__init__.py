"""Event-driven twins of the closed forms: pipeline schedule, collective steps on the torus, request queue."""
