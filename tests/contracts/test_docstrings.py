"""A docstring is part of the interface: its parameters are the signature, its sources exist."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.contracts.source import PACKAGE, FunctionNode, Module, functions, module_from, modules

SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
REFERENCE = re.compile(r"^\.\. \[\w+\]\s+(?P<source>[\w.-]*\w)", re.MULTILINE)
UNIT = re.compile(r"\[[^\]\n]+\]")
#: Public functions and classes outside `formulas` that document every argument: what `trn2model` exports, and the
#: front doors of the estimate.
FRONT_DOORS: dict[str, tuple[str, ...]] = {
    "trn2model/errors.py": ("InvalidInputError",),
    "trn2model/specs/catalog.py": ("chip", "chip_names", "model", "model_names", "system", "system_names"),
    "trn2model/specs/scenario.py": ("Scenario",),
    "trn2model/specs/resolve.py": ("resolve",),
    "trn2model/model/estimate.py": ("estimate",),
    "trn2model/model/training/step.py": ("estimate_training", "TrainingEstimate"),
    "trn2model/model/serving/steady.py": ("estimate_serving", "ServingEstimate"),
    "trn2model/network/cost.py": ("collective_cost",),
    "trn2model/network/collective.py": ("collective_report",),
    "trn2model/model/flop.py": ("model_report",),
}
NOTHING_RETURNED = {"None", "Never", "NoReturn"}


def sections(docstring: str) -> dict[str, str]:
    """Bodies of the numpydoc sections of a docstring, by title."""
    text = inspect.cleandoc(docstring)
    heads = list(SECTION.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head["title"]: text[head.end() : end].strip("\n") for head, end in zip(heads, ends, strict=False)}


def entries(body: str) -> dict[str, str]:
    """Entries of a section: the names before the colon of each unindented line, and the text below."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in body.splitlines():
        if line and not line[0].isspace():
            names = [name.strip() for name in line.partition(" : ")[0].split(",")]
            found.update(dict.fromkeys(names, ""))
        else:
            found.update({name: f"{found[name]}\n{line}" for name in names})
    return found


def parameters(node: FunctionNode) -> list[str]:
    """Parameters of a function in the order of its signature, without self and cls."""
    arguments = node.args
    plain = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    starred = [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    keywords = [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    names = plain + starred + [a.arg for a in arguments.kwonlyargs] + keywords
    return [name for name in names if name not in {"self", "cls"}]


def raised(node: FunctionNode) -> set[str]:
    """Names of the exception classes that the body of a function raises itself."""
    names: set[str] = set()
    for statement in ast.walk(node):
        if isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call | ast.Name):
            target = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
            names.add(target.id if isinstance(target, ast.Name) else getattr(target, "attr", ""))
    return {name for name in names if name[:1].isupper()}


def teaches(path: str, name: str) -> bool:
    """Whether a public function or class documents its arguments in full: formulas, and the front doors."""
    return path.startswith("trn2model/formulas/") or name.partition(".")[0] in FRONT_DOORS.get(path, ())


def problems(module: Module) -> Iterator[str]:
    """Public functions and classes whose docstring is missing, says too little, or says something else than the code.

    Where the house teaches, a docstring is full and equal to the signature; elsewhere it is prose that names what the
    function raises, and repeats no signature.
    """
    for name, node in _definitions(module.tree):
        if any(part.startswith("_") for part in name.split(".")) or _is_overload(node):
            continue
        full = teaches(module.path, name) and not _is_property(node)
        found = _problems(node) if full else _prose_problems(node)
        yield from (f"{module.path}:{node.lineno} {name}: {problem}" for problem in found)


def _definitions(tree: ast.Module) -> Iterator[tuple[str, FunctionNode | ast.ClassDef]]:
    yield from functions(tree)
    yield from ((node.name, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _problems(node: FunctionNode | ast.ClassDef) -> Iterator[str]:
    return _class_problems(node) if isinstance(node, ast.ClassDef) else _function_problems(node)


def _prose_problems(node: FunctionNode | ast.ClassDef) -> Iterator[str]:
    docstring = ast.get_docstring(node)
    if not docstring:
        yield "no docstring"
        return
    if repeated := sections(docstring).keys() & {"Parameters", "Returns", "Yields", "Raises"}:
        yield f"repeats its signature: {', '.join(sorted(repeated))}"
    silent = sorted(name for name in _raised(node) if name not in docstring)
    if silent:
        yield f"does not say that it raises {', '.join(silent)}"


def _raised(node: FunctionNode | ast.ClassDef) -> set[str]:
    return set() if isinstance(node, ast.ClassDef) else raised(node)


def _function_problems(node: FunctionNode) -> Iterator[str]:
    docstring = ast.get_docstring(node)
    if not docstring:
        yield "no docstring"
        return
    described = sections(docstring)
    documented = list(entries(described.get("Parameters", "")))
    if documented != parameters(node):
        yield f"documents {documented}, takes {parameters(node)}"
    returns = ast.unparse(node.returns) if node.returns else "None"
    if returns not in NOTHING_RETURNED and not described.keys() & {"Returns", "Yields"}:
        yield f"does not say what it returns ({returns})"
    if missing := raised(node) - entries(described.get("Raises", "")).keys():
        yield f"does not say that it raises {', '.join(sorted(missing))}"


def _class_problems(node: ast.ClassDef) -> Iterator[str]:
    docstring = ast.get_docstring(node)
    if not docstring:
        yield "no docstring"
        return
    initializers = [n for n in node.body if isinstance(n, FunctionNode) and n.name == "__init__"]
    documented = list(entries(sections(docstring).get("Parameters", "")))
    for initializer in initializers:
        if documented != parameters(initializer):
            yield f"documents {documented}, takes {parameters(initializer)}"


def _is_overload(node: FunctionNode | ast.ClassDef) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)


def _is_property(node: FunctionNode | ast.ClassDef) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


def unit_problems(module: Module) -> Iterator[str]:
    """Parameters and results of formulas that do not name their unit in brackets."""
    for name, node in functions(module.tree):
        described = sections(ast.get_docstring(node) or "")
        for title in () if name.startswith("_") else ("Parameters", "Returns"):
            texts = entries(described.get(title, ""))
            missing = [entry for entry, text in texts.items() if not UNIT.search(text)]
            yield from (f"{module.path}:{node.lineno} {name}: {title}: {entry} has no [unit]" for entry in missing)


def test_docstrings_say_what_the_code_says() -> None:
    public = [module for module in modules("trn2model") if module.is_public]
    assert [problem for module in public for problem in problems(module)] == []


def test_the_front_doors_exist() -> None:
    defined = {(m.path, name) for m in modules("trn2model") for name, _ in _definitions(m.tree)}
    assert {(path, name) for path, names in FRONT_DOORS.items() for name in names} <= defined


def test_formulas_name_the_unit_of_every_argument() -> None:
    assert [problem for module in modules("trn2model/formulas") for problem in unit_problems(module)] == []


def test_references_name_known_sources() -> None:
    sources = tomllib.loads((PACKAGE / "data" / "sources.toml").read_text(encoding="utf-8"))
    cited = {
        (module.path, name, match["source"])
        for module in modules("trn2model")
        for name, node in functions(module.tree)
        for match in REFERENCE.finditer(sections(ast.get_docstring(node) or "").get("References", ""))
    }
    assert sorted(citation for citation in cited if citation[-1] not in sources) == []


HEAD = 'def f(a: int, *, b: int) -> int:\n    """Sum.\n\n'
PARAMETERS = "    Parameters\n    ----------\n    a, b : int\n        Terms. [1]\n\n"
RETURNS = "    Returns\n    -------\n    int\n        The sum. [1]\n\n"
RAISES = "    Raises\n    ------\n    ValueError\n        Never.\n"
END = '    """\n    raise ValueError(a)\n'


def taught(text: str) -> Module:
    """Module of a folder whose docstrings are full."""
    return replace(module_from(text), path="trn2model/formulas/example.py")


def test_the_contract_lets_a_full_docstring_pass() -> None:
    module = taught(HEAD + PARAMETERS + RETURNS + RAISES + END)
    assert list(problems(module)) == []
    assert list(unit_problems(module)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f() -> None:\n    pass\n",
        "class A:\n    x = 1\n",
        'class A:\n    """Doc."""\n    def __init__(self, x: int) -> None:\n        pass\n',
        HEAD + RETURNS + RAISES + END,
        HEAD + PARAMETERS + RAISES + END,
        HEAD + PARAMETERS + RETURNS + END,
        HEAD + PARAMETERS.replace("a, b", "b, a") + RETURNS + RAISES + END,
        HEAD + PARAMETERS.replace("a, b", "a, b, c") + RETURNS + RAISES + END,
    ],
)
def test_the_contract_sees_a_gap(text: str) -> None:
    assert list(problems(taught(text)))


def test_the_contract_sees_a_missing_unit() -> None:
    assert len(list(unit_problems(module_from((HEAD + PARAMETERS + RETURNS + END).replace(" [1]", ""))))) == 3


@pytest.mark.parametrize(
    "text",
    [
        "def f() -> None:\n    pass\n",
        "class A:\n    x = 1\n",
        HEAD + PARAMETERS + RETURNS + END,
        HEAD.removesuffix("\n") + "    ValueError\n" + RETURNS + END,
        'def f(a: int) -> int:\n    """Sum."""\n    raise ValueError(a)\n',
    ],
)
def test_the_contract_sees_prose_that_says_too_little_or_too_much(text: str) -> None:
    assert list(problems(module_from(text)))


def test_the_contract_lets_one_line_pass() -> None:
    text = 'def f(a: int) -> int:\n    """Sum; raises ValueError where a is negative."""\n    raise ValueError(a)\n'
    assert list(problems(module_from(text))) == []
