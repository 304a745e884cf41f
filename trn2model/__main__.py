"""``python -m trn2model``."""

from __future__ import annotations

import sys

from trn2model.cli import main

if __name__ == "__main__":
    sys.exit(main())
