"""Each class of field reads, checks, writes and explains its own values."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from trn2model.errors import InvalidInputError, InvalidPlanError, UnknownNameError
from trn2model.specs import catalog
from trn2model.specs.fields import (
    AUTO,
    NONE,
    BoolField,
    ChoiceField,
    FloatField,
    IntField,
    ModelField,
    NameField,
    OrderField,
    ScenarioField,
    SubsetField,
    row,
    table_of,
    words,
)


def field(kind: type[ScenarioField], **rules: Any) -> ScenarioField:
    """Field of a class, called "x"."""
    return kind("k", "Label", "Model", help="Help.", name="x", **rules)


SWITCH = field(BoolField)
WHOLE = field(IntField, minimum=1, maximum=2000, unset=AUTO, plan=True)
REAL = field(FloatField, minimum=0, maximum=1, unset=NONE)
WORD = field(ChoiceField, choices=words("ring", "tree"))
NAME = field(NameField, choices=words("alpha", "beta"))
MODEL = field(ModelField, choices=catalog.model_names)
ORDER = field(OrderField)
SUBSET = field(SubsetField, choices=words("a", "b", "c"), unset=NONE)
LLAMA = catalog.model("llama-3.2-1b")


@pytest.mark.parametrize(
    ("of", "text", "value", "written", "allowed"),
    [
        (SWITCH, "TRUE", True, "true", "true or false"),
        (WHOLE, "1500", 1500, "1500", "auto, or an integer from 1 to 2,000"),
        (WHOLE, "auto", "auto", "auto", "auto, or an integer from 1 to 2,000"),
        (REAL, "1e-1", 0.1, "0.1", "none, or a number from 0 to 1"),
        (REAL, "none", None, "none", "none, or a number from 0 to 1"),
        (WORD, "tree", "tree", "tree", "one of ring, tree"),
        (NAME, "beta", "beta", "beta", "one of alpha, beta"),
        (ORDER, "dp,tp,cp,ep,pp", "dp,tp,cp,ep,pp", "dp,tp,cp,ep,pp", "an order of tp, cp, ep, dp, pp joined by"),
        (SUBSET, "c,a", "a,c", "a,c", "none, or any of a, b, c joined by commas"),
    ],
)
def test_a_class_reads_writes_and_explains(
    of: ScenarioField, text: str, value: object, written: str, allowed: str
) -> None:
    assert repr(of.parse(text)) == repr(value)
    assert of.format(of.parse(text)) == written
    assert of.allowed().startswith(allowed)


@pytest.mark.parametrize(
    ("of", "text"), [(SWITCH, "1"), (WHOLE, "0"), (WHOLE, "1.5"), (REAL, "2"), (WORD, "star"), (SUBSET, "a,d")]
)
def test_what_a_text_spells_is_read_before_it_is_checked(of: ScenarioField, text: str) -> None:
    assert str(of.read(text)).startswith(text)
    with pytest.raises(InvalidPlanError, match="x = "):
        of.parse(text)


def test_words_start_with_the_one_that_leaves_the_field_unset() -> None:
    assert [of.options() for of in (SWITCH, WHOLE, WORD)] == [(), ("auto",), ("ring", "tree")]
    assert SUBSET.options() == ("none", "a", "b", "c", "a,b", "a,c", "b,c", "a,b,c")
    assert len(ORDER.options()) == 120


def test_only_the_field_of_the_model_takes_a_model() -> None:
    assert MODEL.check(LLAMA) is LLAMA
    with pytest.raises(InvalidInputError, match="a model of your own has no link"):
        MODEL.format(LLAMA)
    for of in (NAME, WORD, WHOLE):
        with pytest.raises(InvalidPlanError):
            of.check(LLAMA)


def test_a_misspelt_name_is_answered_with_what_was_meant() -> None:
    with pytest.raises(UnknownNameError, match="did you mean alpha"):
        NAME.check("alpa")
    with pytest.raises(InvalidPlanError, match="set x to an allowed value"):
        WORD.check("rign")


def test_arrays_are_for_plans_and_have_no_text() -> None:
    array = WHOLE.check([1, 2])
    assert array.tolist() == [1, 2]
    with pytest.raises(InvalidInputError, match="a single value in a link"):
        WHOLE.format(array)
    with pytest.raises(InvalidPlanError):
        dataclasses.replace(WHOLE, plan=False).check(np.array([1, 2]))


@dataclasses.dataclass
class Table:
    """Two rows."""

    first: int = row(3, IntField("f", "First", "Model", help="Help.", minimum=0, maximum=9))
    second: bool = row(True, BoolField("s", "Second", "Model", help="Help."))


def test_a_table_takes_names_and_defaults_from_its_dataclass() -> None:
    assert [(of.key, of.name, of.default, of.flag) for of in table_of(Table)] == [
        ("f", "first", 3, "--first"),
        ("s", "second", True, "--second"),
    ]
    assert Table() == Table(3, True)
