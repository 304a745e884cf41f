"""The repository as the contracts read it: tracked files, and the package's modules as syntax trees."""

from __future__ import annotations

import ast
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "trn2model"
FOLDERS: Final = ("trn2model", "pages", "tests")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: str
    text: str
    tree: ast.Module

    @property
    def is_public(self) -> bool:
        """Whether no part of its dotted name begins with an underscore, `__init__` aside."""
        names = Path(self.path).with_suffix("").parts
        return not any(name.startswith("_") and name != "__init__" for name in names)


def module_from(text: str, path: str = "trn2model/example.py") -> Module:
    """Module from its text, so that a contract can be tried on code that breaks it."""
    return Module(path, text, ast.parse(text))


@cache
def modules(folder: str) -> tuple[Module, ...]:
    """Python files below a folder of the repository; none if the folder does not exist."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return tuple(module_from(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()) for path in paths)


@cache
def pages() -> tuple[Module, ...]:
    """The scripts that Streamlit runs."""
    shell = ROOT / "dashboard.py"
    shells = (module_from(shell.read_text(encoding="utf-8"), shell.name),) if shell.exists() else ()
    return shells + modules("pages")


@cache
def tracked_files() -> tuple[str, ...]:
    """Files that git tracks or would take, relative to the root; outside a clone, the files of the fixed folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listing.returncode == 0:
        return tuple(name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file())
    paths = [ROOT / "README.md", ROOT / "pyproject.toml", *(p for f in FOLDERS for p in (ROOT / f).rglob("*"))]
    return tuple(p.relative_to(ROOT).as_posix() for p in paths if p.is_file() and "__pycache__" not in p.parts)


def functions(tree: ast.AST, *, qualifier: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Functions and methods with their qualified names; functions inside functions are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FunctionNode):
            yield qualifier + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, qualifier=f"{qualifier}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from functions(node, qualifier=qualifier)


def code_lines(text: str) -> set[int]:
    """Numbers of the lines that hold code: no blank lines, no comments, no docstrings."""
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type not in ignored:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - _docstring_lines(ast.parse(text))


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | FunctionNode) and ast.get_docstring(node, clean=False):
            expression = node.body[0]
            lines.update(range(expression.lineno, (expression.end_lineno or expression.lineno) + 1))
    return lines
