"""Checked reading of a Hugging Face config.json: every wrong field gives one clear message."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trn2model.errors import InvalidInputError
from trn2model.specs.fields import Abridged

#: Longest config.json that is read; real ones are below 64 KiB even with a quantization table.
MAX_CONFIG_CHARACTERS: Final = 1 << 20
#: Most layers, heads or experts that a field may name.
MAX_COUNT: Final = 4096
#: Largest width, vocabulary or position that a field may name.
MAX_SIZE: Final = 1 << 24

_SHOWN_CHARACTERS: Final = 60
_SHOWN_DIGITS: Final = 12
#: Python refuses to print integers of more than a few thousand digits.
_PRINTED_BITS: Final = 4096
_CORRECT: Final = "correct the field in config.json"


class ConfigFields:
    """Fields of one config.json, each checked as it is read."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    def has(self, key: str, null: bool = False) -> bool:
        """Whether a field is given."""
        return key in self._content and (null or self._content[key] is not None)

    def size(self, *keys: str, default: int | None = None, least: int = 1, most: int = MAX_SIZE) -> int:
        """Whole number of a field; of several names the first given counts.

        Raises InvalidInputError (the field is missing, not a whole number, or out of range).
        """
        key = next((k for k in keys if self.has(k)), keys[0])
        value = self._content.get(key)
        if value is None and default is not None:
            return default
        allowed = f"a whole number from {least} to {most}"
        if value is None:
            raise invalid(key, value, allowed, f"add {' or '.join(keys)} to config.json")
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise invalid(key, value, allowed)
        return number

    def count(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """Whole number of a field that counts layers, heads or experts.

        Raises InvalidInputError (the field is missing, not a whole number, or out of range).
        """
        return self.size(*keys, default=default, least=least, most=MAX_COUNT)

    def flag(self, key: str, default: bool) -> bool:
        """Truth value of a field.

        Raises InvalidInputError (the field is neither true nor false).
        """
        value = self._content.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise invalid(key, value, "true or false")
        return value

    def fraction(self, key: str, default: float) -> float:
        """Number between 0 and 1 of a field.

        Raises InvalidInputError (the field is not a number from 0 to 1).
        """
        value = self._content.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise invalid(key, value, "a number from 0 to 1")
        return float(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Object of a field.

        Raises InvalidInputError (the field is not an object).
        """
        value = self._content.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise invalid(key, value, "an object or null")
        return value

    def word(self, key: str) -> str:
        """Text of a field.

        Raises InvalidInputError (the field is not a text).
        """
        value = self._content.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise invalid(key, value, "a text")
        return value

    def entries(self, key: str) -> list[Any]:
        """List of a field.

        Raises InvalidInputError (the field is not a list, or longer than any model has layers).
        """
        value = self._content.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MAX_COUNT:
            raise invalid(key, value, f"a list of at most {MAX_COUNT} entries")
        return value

    def words(self, key: str, allowed: Sequence[str], length: int) -> list[str]:
        """List of words, one per layer.

        Raises InvalidInputError (the list has another length or holds anything else).
        """
        values = self.entries(key)
        if values and len(values) != length:
            raise invalid(key, f"{len(values)} entries", f"one entry for each of {length} layers")
        wrong = [value for value in values if value not in allowed]
        if wrong:
            raise invalid(key, wrong[0], f"entries {' or '.join(allowed)}")
        return values


def config_fields(source: str | Mapping[str, Any]) -> ConfigFields:
    """Fields of a config.json given as text or already parsed.

    Raises InvalidInputError (the text is too long, is not JSON, or is not one object).
    """
    if isinstance(source, Mapping):
        return ConfigFields(source)
    remedy = "give the config.json of a Hugging Face model"
    if len(source) > MAX_CONFIG_CHARACTERS:
        allowed = f"at most {MAX_CONFIG_CHARACTERS} characters"
        raise invalid("model_config", f"{len(source)} characters", allowed, remedy)
    try:
        content = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise invalid("model_config", source, "valid JSON", remedy) from error
    if not isinstance(content, dict):
        raise invalid("model_config", content, "one JSON object", remedy)
    return ConfigFields(content)


def invalid(field: str, value: object, allowed: str, remedy: str = _CORRECT) -> InvalidInputError:
    """Error about one field, with the value cut to a line."""
    if value is None or isinstance(value, bool | float):
        return InvalidInputError(field, value, allowed, remedy)
    if isinstance(value, str):
        return InvalidInputError(field, _line(value), allowed, remedy)
    if isinstance(value, int):
        return InvalidInputError(field, _abridged_integer(value), allowed, remedy)
    return InvalidInputError(field, Abridged(_line(reprlib.repr(value))), allowed, remedy)


def _line(text: str) -> str:
    line = " ".join(text[: 2 * _SHOWN_CHARACTERS].split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def _abridged_integer(value: int) -> int | Abridged:
    if abs(value) < MAX_SIZE**2:
        return value
    if value.bit_length() > _PRINTED_BITS:
        return Abridged(f"an integer of {value.bit_length():,} bits")
    digits = str(abs(value))
    return Abridged(f"{'-' if value < 0 else ''}{digits[:_SHOWN_DIGITS]}… ({len(digits):,} digits)")
