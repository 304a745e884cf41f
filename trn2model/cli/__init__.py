"""The command line: ``trn2model specs | models | train | link …``, each with ``--json``."""

from trn2model.cli.program import main

__all__ = ["main"]
