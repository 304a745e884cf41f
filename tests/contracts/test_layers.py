"""Imports run in one direction, and the package starts with NumPy alone."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from tests.contracts.source import PACKAGE, ROOT, modules, pages

PAGE_IMPORTS = {"__future__", "streamlit", "trn2model", "pages"}
HEAVY_MODULES = {"altair", "pandas", "plotly", "pyarrow", "scipy", "streamlit"}


def imported_modules(tree: ast.AST) -> set[str]:
    """Dotted names of the modules that a tree imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or ".")
    return names


def top_names(tree: ast.AST) -> set[str]:
    """Top-level packages that a tree imports."""
    return {name.partition(".")[0] for name in imported_modules(tree)}


def test_import_linter_contracts_hold(capsys: pytest.CaptureFixture[str]) -> None:
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_only_the_dashboard_imports_its_libraries() -> None:
    outside = [m for m in modules("trn2model") if not m.path.startswith("trn2model/ui/")]
    heavy = {m.path: top_names(m.tree) & HEAVY_MODULES for m in outside if top_names(m.tree) & HEAVY_MODULES}
    assert heavy == {"trn2model/validation/fit.py": {"scipy"}}


def test_charts_and_tables_of_the_dashboard_do_not_draw() -> None:
    plain = ("trn2model/ui/charts/", "trn2model/ui/pages/", "trn2model/ui/tables", "trn2model/ui/report")
    drawing = [m.path for m in modules("trn2model/ui") if "streamlit" in top_names(m.tree)]
    assert [path for path in drawing if path.startswith(plain)] == []


def test_pages_import_streamlit_and_the_package_only() -> None:
    assert {m.path: top_names(m.tree) - PAGE_IMPORTS for m in pages() if top_names(m.tree) - PAGE_IMPORTS} == {}


def test_pages_leave_numbers_to_the_package() -> None:
    banned = ("trn2model.formulas", "trn2model.units", "trn2model.simulate")
    assert [m.path for m in pages() if any(name.startswith(banned) for name in imported_modules(m.tree))] == []


def test_the_dashboard_and_the_command_line_do_without_what_the_fit_needs() -> None:
    script = "import sys, trn2model.cli, trn2model.ui.app, trn2model.ui.controls; print('scipy' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "False"


def test_importing_the_package_needs_numpy_alone() -> None:
    script = "import sys, trn2model; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    command = [sys.executable, "-W", "error", "-c", script]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert "trn2model" in loaded
    assert HEAVY_MODULES.isdisjoint(loaded)


def test_the_public_api_imports_numpy_alone() -> None:
    script = (
        "import sys, trn2model; [getattr(trn2model, name) for name in trn2model.__all__];"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    command = [sys.executable, "-W", "error", "-c", script]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert HEAVY_MODULES.isdisjoint(loaded)


def test_every_folder_of_the_package_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
