"""Pure, branch-free formulas: arrays and scalars in SI units in, the same out; they know no spec.

`Numeric` is what every argument and every result is: a float or an array of float64; arguments broadcast.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numeric = float | NDArray[np.float64]
"""A number or an array of them; one body of a formula serves both."""
