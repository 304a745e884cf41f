"""What stands where, and what no file of the repository may hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.contracts.source import ROOT, Module, functions, module_from, modules, pages, tracked_files

TOP_LEVEL = {"README.md", "dashboard.py", "pages", "pyproject.toml", "tests", "trn2model"}
TEXT_SUFFIXES = {"", ".cfg", ".csv", ".html", ".json", ".md", ".py", ".svg", ".toml", ".txt", ".typed"}
# Written so that they do not match themselves.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|farm|root|tmp|opt|home|Users|mnt)/")
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")


def code_problems(module: Module) -> list[str]:
    """Constructs that product code never uses."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assert):
            found.append((node.lineno, "assert"))
        if isinstance(node, ast.ExceptHandler) and _is_blind(node):
            found.append((node.lineno, "except that takes everything"))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "time.sleep", "eval", "exec"}:
            found.append((node.lineno, ast.unparse(node.func)))
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).endswith("NotImplementedError"):
            found.append((node.lineno, "NotImplementedError"))
    return [f"{module.path}:{line}: {what}" for line, what in found]


def _is_blind(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or ast.unparse(handler.type) in {"Exception", "BaseException"}


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _matches(pattern: re.Pattern[str]) -> list[str]:
    names = [name for name in tracked_files() if Path(name).suffix in TEXT_SUFFIXES]
    return [f"{name}: {match[0]}" for name in names for match in pattern.finditer(_text(name))]


def test_top_level_holds_what_the_owner_asked_for() -> None:
    tops = {name.partition("/")[0] for name in tracked_files()}
    assert {top for top in tops if not top.startswith(".")} - TOP_LEVEL == set()


def test_no_machine_paths() -> None:
    assert _matches(MACHINE_PATH) == []


def test_nothing_is_left_for_later() -> None:
    assert _matches(UNFINISHED) == []


@pytest.mark.parametrize("folder", ["home", "opt", "tmp"])
def test_the_contract_sees_a_machine_path(folder: str) -> None:
    assert all(MACHINE_PATH.search(text) for text in (f"open('/{folder}/a')", f"see /{folder}/a", f"(/{folder}/a)"))
    assert not MACHINE_PATH.search(f"https://x.example/docs/{folder}/a, tokens/{folder}/s, ../{folder}/x")


def test_product_code_is_clean() -> None:
    assert [problem for module in modules("trn2model") + pages() for problem in code_problems(module)] == []


@pytest.mark.parametrize(
    "text",
    [
        "assert x",
        "try:\n    f()\nexcept:\n    g()",
        "try:\n    f()\nexcept Exception:\n    g()",
        "print(1)",
        "time.sleep(1)",
        "raise NotImplementedError",
    ],
)
def test_the_contract_sees_unclean_code(text: str) -> None:
    assert code_problems(module_from(text))


def test_unit_tests_are_named_after_what_they_test() -> None:
    names = {Path(m.path).stem.removeprefix("test_") for m in modules("tests/unit") if "test_" in m.path}
    paths = [Path(m.path).with_suffix("").parts[1:] for m in modules("trn2model")]
    known = {"_".join(path[start:end]) for path in paths for end in (-1, None) for start in range(len(path))}
    assert sorted(name for name in names if not any(f"_{name}".endswith(f"_{ending}") for ending in known)) == []


def test_every_module_is_tested() -> None:
    plain = {_dotted(m): m for m in modules("trn2model") if "streamlit" not in m.text and list(functions(m.tree))}
    reached = {name for m in modules("tests") for name in _imported_names(m.tree)} & plain.keys()
    while helpers := {name for tested in reached for name in _helpers(tested, plain)} - reached:
        reached |= helpers
    assert sorted(plain.keys() - reached) == []


def _dotted(module: Module) -> str:
    return ".".join(Path(module.path).with_suffix("").parts).removesuffix(".__init__")


def _helpers(name: str, plain: dict[str, Module]) -> set[str]:
    """Modules of the same folder that a module imports: it was split, and its tests reach them."""
    folder = name.rpartition(".")[0]
    return {other for other in _imported_names(plain[name].tree) & plain.keys() if other.rpartition(".")[0] == folder}


def _imported_names(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
