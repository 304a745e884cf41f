"""Whatever is thrown at it, a scenario is either valid or refused in one clear line; what is valid survives a link."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, parse_qsl

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trn2model.errors import InvalidInputError, InvalidPlanError, UnsupportedError
from trn2model.specs import catalog
from trn2model.specs.fields import BoolField, FloatField, IntField, ScenarioField
from trn2model.specs.link import decode, encode, query_string
from trn2model.specs.plan import PLAN_COLUMNS, RULES, WORKLOADS, check_plan, parallel_plan, plan_limits
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import FIELDS, KEYS, ROWS, Scenario

ANY_TEXT = st.text(st.characters(), max_size=40)  # surrogates and control characters too
NUMBERS = st.one_of(st.integers(), st.floats(), st.integers(min_value=10**300, max_value=10**301))
TEXT = st.one_of(ANY_TEXT, NUMBERS.map(str), st.sampled_from([w for row in FIELDS for w in row.options()]))
VALUE = st.one_of(TEXT, NUMBERS, st.none(), st.booleans(), st.binary(max_size=4))
ANY_VALUE = st.recursive(VALUE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2))
MODELS = ("llama-3.1-70b", "mixtral-8x7b", "llama-2-13b")


def valid_values(row: ScenarioField) -> st.SearchStrategy[Any]:
    """Values that a field takes, its default among them."""
    values: st.SearchStrategy[Any] = st.nothing()
    if isinstance(row, IntField):
        values = st.integers(int(row.minimum), int(row.maximum))
    elif isinstance(row, FloatField):
        values = st.floats(row.minimum, row.maximum)
    elif isinstance(row, BoolField):
        values = st.booleans()
    words = st.sampled_from(row.options()) if row.options() else st.nothing()
    return st.just(row.default) | words | values


def outcome(function: Callable[..., Any], *arguments: object) -> tuple[Any, Exception | None]:
    """Result of a call, or the error with which it refuses."""
    try:
        return function(*arguments), None
    except (InvalidInputError, UnsupportedError) as error:
        return None, error


SCENARIOS = st.fixed_dictionaries({}, optional={row.name: valid_values(row) for row in FIELDS}).map(
    lambda values: Scenario(**values)
)


@given(st.dictionaries(st.sampled_from(sorted(KEYS)) | ANY_TEXT, TEXT | st.lists(TEXT, max_size=3), max_size=12))
def test_no_link_is_too_strange(parameters: dict[str, str | list[str]]) -> None:
    scenario, notices = decode(parameters)
    assert {notice.key for notice in notices} <= parameters.keys() & KEYS.keys()
    for notice in notices:
        row = KEYS[notice.key]
        assert getattr(scenario, row.name) == row.default
        notice.value.encode("utf-8")
        assert len(notice.value) < 400
    assert decode(encode(scenario)) == (scenario, ())


@given(st.text(max_size=200))
def test_no_query_string_is_too_strange(text: str) -> None:
    scenario, _ = decode(parse_qs(text, keep_blank_values=True))
    assert isinstance(scenario, Scenario)


@given(SCENARIOS)
def test_a_scenario_survives_its_link(scenario: Scenario) -> None:
    text = query_string(scenario)
    assert decode(dict(parse_qsl(text, strict_parsing=bool(text)))) == (scenario, ())
    assert text.isascii()


@given(SCENARIOS)
def test_a_scenario_survives_json(scenario: Scenario) -> None:
    assert Scenario.from_dict(json.loads(json.dumps(scenario.to_dict(), allow_nan=False))) == scenario


@given(SCENARIOS)
def test_a_link_holds_what_differs_from_the_default(scenario: Scenario) -> None:
    differing = {row.key for row in FIELDS if getattr(scenario, row.name) != row.default}
    assert set(encode(scenario)) == differing


@given(st.sampled_from(FIELDS), ANY_VALUE)
def test_a_value_is_taken_or_refused_in_one_line(row: ScenarioField, value: object) -> None:
    taken, refused = outcome(row.check, value)
    if refused is None:
        assert np.array_equal(row.check(taken), taken)
    else:
        assert isinstance(refused, InvalidPlanError)
        assert refused.field == row.name
        assert "\n" not in str(refused)
        assert len(str(refused)) < 1000


@settings(max_examples=200)
@given(SCENARIOS, st.sampled_from(WORKLOADS))
def test_a_scenario_is_resolved_or_refused(scenario: Scenario, workload: Any) -> None:
    resolved, refused = outcome(resolve, scenario, workload)
    if refused is not None:
        assert "\n" not in str(refused)
        return
    plan = resolved.plan
    assert 1 <= plan.num_ranks <= resolved.num_ranks
    assert resolved.limits.num_heads % plan.tp == 0
    if workload == "train":
        assert plan.num_microbatches >= 1
        assert plan.num_microbatches == round(float(plan.num_microbatches))
    assert json.dumps(resolved.to_dict(), allow_nan=False)


@st.composite
def plan_columns(draw: st.DrawFn) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Columns of up to eight plans, most of them near what is valid."""
    size = draw(st.integers(1, 8))
    small = st.sampled_from([1, 2, 3, 4, 8, 16, 40, 64, 81])
    large = {"global_batch_size": st.sampled_from([1, 48, 64, 512]), "sequence_length": st.sampled_from([1, 100, 4096])}
    return {
        name: np.array(draw(st.lists(large.get(name, small), min_size=size, max_size=size))) for name in PLAN_COLUMNS
    }


@given(plan_columns(), st.sampled_from(MODELS), st.sampled_from(WORKLOADS), st.sampled_from(["1f1b", "gpipe"]))
def test_a_batch_is_judged_as_its_rows(columns: dict[str, Any], model: str, workload: Any, schedule: str) -> None:
    limits = plan_limits(catalog.model(model), 256, schedule)
    batch = parallel_plan(**columns)
    rows = [parallel_plan(**{name: column[at] for name, column in columns.items()}) for at in range(batch.tp.size)]
    for rule in RULES:
        judged = np.broadcast_to(rule.broken(batch, limits), batch.shape)
        assert judged.tolist() == [bool(rule.broken(row, limits)) for row in rows]
    refused = [_is_refused(row, limits, workload) for row in rows]
    assert _is_refused(batch, limits, workload) == any(refused)


def _is_refused(plan: Any, limits: Any, workload: Any) -> bool:
    try:
        check_plan(plan, limits, workload)
    except InvalidPlanError:
        return True
    return False


@given(st.lists(st.sampled_from([1, 2, 4, 8, 16, 32, 64]), min_size=1, max_size=6))
def test_an_array_is_resolved_as_its_entries(tp: list[int]) -> None:
    batch = resolve(Scenario(tp=np.array(tp))).plan
    singles = [resolve(Scenario(tp=value)).plan for value in tp]
    for name in (*PLAN_COLUMNS, "num_ranks", "num_microbatches"):
        assert getattr(batch, name).tolist() == [float(getattr(single, name)) for single in singles]


def test_rows_by_name_and_by_key_are_the_same_rows() -> None:
    assert {row.name for row in KEYS.values()} == set(ROWS)
