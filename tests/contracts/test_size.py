"""Small pieces: pages of 40 lines without arithmetic, functions of 40 lines of code, modules of 400 lines of code."""

from __future__ import annotations

import ast

import pytest

from tests.contracts.source import Module, code_lines, functions, module_from, modules, pages

PAGE_LINES = 40
FUNCTION_LINES = 40
MODULE_LINES = 400
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.MatMult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def arithmetic(module: Module) -> list[str]:
    """Arithmetic operators of a page; a negative literal is not one."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ARITHMETIC):
            found.append(f"{module.path}:{node.lineno}")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            found += [] if isinstance(node.operand, ast.Constant) else [f"{module.path}:{node.lineno}"]
    return found


def function_sizes(module: Module) -> dict[str, int]:
    """Lines of code of each function, without docstring, comments and blank lines."""
    lines = code_lines(module.text)
    return {
        f"{module.path}:{node.lineno} {name}": len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
        for name, node in functions(module.tree)
    }


def test_pages_are_short() -> None:
    sizes = {m.path: len(m.text.splitlines()) for m in pages()}
    assert {path: size for path, size in sizes.items() if size > PAGE_LINES} == {}


def test_pages_do_not_calculate() -> None:
    assert [place for module in pages() for place in arithmetic(module)] == []


@pytest.mark.parametrize("body", ["x = a + b", "x += 1", "x = 'a' + 'b'", "x = a / 1e9", "x = -a", "x = '%s' % a"])
def test_the_contract_sees_arithmetic(body: str) -> None:
    assert arithmetic(module_from(body))


@pytest.mark.parametrize("body", ["x = -1", "x = f'{a:.3g}'", "x: int | None = None"])
def test_the_contract_lets_thin_code_pass(body: str) -> None:
    assert arithmetic(module_from(body)) == []


def test_functions_are_short() -> None:
    sizes = {name: size for module in modules("trn2model") for name, size in function_sizes(module).items()}
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES} == {}


def test_the_contract_counts_lines_of_code() -> None:
    text = 'def f(\n    a,\n):\n    """Doc.\n\n    More.\n    """\n\n    # why\n    return """x\n\ny"""\n'
    assert list(function_sizes(module_from(text)).values()) == [6]


def test_modules_are_short() -> None:
    sizes = {m.path: len(code_lines(m.text)) for m in modules("trn2model")}
    assert {path: size for path, size in sizes.items() if size > MODULE_LINES} == {}
