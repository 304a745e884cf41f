"""Work of the optimizer update on the Vector and Scalar engines: passes over the parameters of a rank."""

from __future__ import annotations

from trn2model.formulas import Numeric


def adamw_vector_elements(parameters: Numeric) -> Numeric:
    r"""Vector elements of one AdamW update.

    .. math:: V = 6 P

    Parameters
    ----------
    parameters : Numeric, shape (...)
        Parameters updated on this rank, :math:`P`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements: two for the first moment; second moment, denominator, step and weight. [1]

    Notes
    -----
    Validity: HBM traffic (about 30 B per parameter) binds on Trainium2, not these passes.

    References
    ----------
    .. [1] adamw-2019
    """
    return 6.0 * parameters


def adamw_scalar_elements(parameters: Numeric) -> Numeric:
    r"""Scalar elements of one AdamW update.

    .. math:: S = 2 P

    Parameters
    ----------
    parameters : Numeric, shape (...)
        Parameters updated on this rank, :math:`P`. [1]

    Returns
    -------
    Numeric, shape (...)
        Elements: square of the gradient, root of the second moment. [1]

    Notes
    -----
    Validity: any extent >= 0.

    References
    ----------
    .. [1] adamw-2019
    """
    return 2.0 * parameters
