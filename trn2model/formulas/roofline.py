"""Rooflines: the slowest engine decides the time of an operator."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric

#: Names of the codes that `bound_engine` gives.
ENGINES: Final = ("tensor", "vector", "scalar", "hbm")


def operator_time(
    tensor_time: Numeric, vector_time: Numeric, scalar_time: Numeric, hbm_time: Numeric, fixed_time: Numeric
) -> Numeric:
    r"""Time of an operator whose engines and memory work at the same time.

    .. math:: t = \max(t_{tensor}, t_{vector}, t_{scalar}, t_{hbm}) + t_{fixed}

    Parameters
    ----------
    tensor_time : Numeric, shape (...)
        Busy time of the Tensor engine. [s]
    vector_time : Numeric, shape (...)
        Busy time of the Vector engine. [s]
    scalar_time : Numeric, shape (...)
        Busy time of the Scalar engine. [s]
    hbm_time : Numeric, shape (...)
        Time to move the HBM traffic. [s]
    fixed_time : Numeric, shape (...)
        What starting the operator costs. [s]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs. [s]

    Notes
    -----
    Validity: perfect overlap inside an operator, none between operators.

    References
    ----------
    .. [1] roofline-2009
    """
    compute_time = np.maximum(np.maximum(tensor_time, vector_time), scalar_time)
    return np.maximum(compute_time, hbm_time) + fixed_time


def exposed_time(tensor_time: Numeric, hbm_time: Numeric, overlap_fraction: Numeric) -> Numeric:
    r"""Part of an operator's traffic or matmul that runs while the other waits: its first and last tiles.

    .. math:: t = (1 - o) \min(t_{tensor}, t_{hbm})

    Parameters
    ----------
    tensor_time : Numeric, shape (...)
        Busy time of the Tensor engine. [s]
    hbm_time : Numeric, shape (...)
        Time to move the HBM traffic. [s]
    overlap_fraction : Numeric
        Share of the shorter one hidden behind the longer one, :math:`o`. [1]

    Returns
    -------
    Numeric, shape (...)
        Broadcast of the inputs; nothing without a matmul. [s]

    Notes
    -----
    Validity: 0 <= o <= 1. With 0 the two follow one another.

    References
    ----------
    .. [1] xpu-perf
    """
    return (1.0 - overlap_fraction) * np.minimum(tensor_time, hbm_time)


def bound_engine(
    tensor_time: Numeric, vector_time: Numeric, scalar_time: Numeric, hbm_time: Numeric
) -> NDArray[np.int64]:
    r"""Code of the engine that decides an operator's time: its index in `ENGINES`.

    .. math:: e = \operatorname{arg\,max}(t_{tensor}, t_{vector}, t_{scalar}, t_{hbm})

    Parameters
    ----------
    tensor_time : Numeric, shape (...)
        Busy time of the Tensor engine. [s]
    vector_time : Numeric, shape (...)
        Busy time of the Vector engine. [s]
    scalar_time : Numeric, shape (...)
        Busy time of the Scalar engine. [s]
    hbm_time : Numeric, shape (...)
        Time to move the HBM traffic. [s]

    Returns
    -------
    NDArray of int64, shape (...)
        0 tensor, 1 vector, 2 scalar, 3 HBM; the first of equals. [1]

    Notes
    -----
    Validity: finite times.

    References
    ----------
    .. [1] roofline-2009
    """
    times: list[NDArray[Any]] = list(np.broadcast_arrays(tensor_time, vector_time, scalar_time, hbm_time))
    return np.asarray(np.argmax(np.stack(times), axis=0), dtype=np.int64)
