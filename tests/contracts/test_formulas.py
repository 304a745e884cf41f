"""One formula body serves one plan and a million: no branch on a value, nothing that forgets to broadcast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.contracts.source import Module, module_from, modules

BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.While,
    ast.BoolOp,
    ast.Not,
    ast.Match,
    ast.Assert,
    ast.Try,
    ast.TryStar,
    ast.Break,
    ast.Continue,
)
SCALAR_BUILTINS = {"all", "any", "bool", "divmod", "float", "int", "max", "min", "round", "sorted", "sum"}
ALLOWED_IMPORTS = {"__future__", "numpy", "typing"}


def violations(module: Module) -> list[str]:
    """Constructs of a formula module that would branch on a value or reduce an array to one number."""
    found = (problem for node in ast.walk(module.tree) for problem in _problems(node))
    return [f"{module.path}:{line}: {problem}" for line, problem in found]


def _problems(node: ast.AST) -> Iterator[tuple[int, str]]:
    line = getattr(node, "lineno", 0)
    if isinstance(node, BRANCHES):
        yield line, type(node).__name__
    if isinstance(node, ast.comprehension) and node.ifs:
        yield node.target.lineno, "filter in a comprehension"
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        yield line, "chained comparison"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SCALAR_BUILTINS:
        yield line, f"{node.func.id}()"
    if isinstance(node, ast.Attribute) and node.attr in {"vectorize", "item"}:
        yield line, node.attr
    if isinstance(node, ast.Import):
        yield from ((line, f"import {a.name}") for a in node.names if not _allowed(a.name))
    if isinstance(node, ast.ImportFrom) and not _allowed(node.module or "."):
        yield line, f"import from {node.module}"


def _allowed(name: str) -> bool:
    return name.partition(".")[0] in ALLOWED_IMPORTS or f"{name}.".startswith("trn2model.formulas.")


def test_formulas_are_branch_free() -> None:
    assert [problem for module in modules("trn2model/formulas") for problem in violations(module)] == []


@pytest.mark.parametrize(
    "body",
    [
        "y = 1.0 if x > 0 else 2.0",
        "if x > 0:\n    y = 1.0",
        "while x > 0:\n    x = x - 1",
        "y = (x > 0) and (x < 2)",
        "y = 0 < x < 2",
        "y = not x",
        "y = int(x)",
        "y = max(x, 1.0)",
        "y = min(x, 1.0)",
        "y = sum(x)",
        "y = [v for v in x if v > 0]",
        "y = np.vectorize(f)(x)",
        "import math",
        "from math import ceil",
        "from trn2model.specs.hardware import Chip",
        "from trn2model.formulas_extra import f",
        "assert x",
        "match x:\n    case 1:\n        y = 2",
        "try:\n    y = x\nexcept ValueError:\n    y = 0",
    ],
)
def test_the_contract_sees_a_branch(body: str) -> None:
    assert violations(module_from(body))


@pytest.mark.parametrize(
    "body",
    [
        "import numpy as np\nfrom numpy.typing import NDArray",
        "from trn2model.formulas import Numeric",
        "from trn2model.formulas.matmul import gemm_flop",
        "y = np.where(x > 0, np.maximum(x, 1.0), np.ceil(x))",
        "for axis in range(3):\n    y = y + x[axis]",
    ],
)
def test_the_contract_lets_numpy_pass(body: str) -> None:
    assert violations(module_from(body)) == []
