"""The dashboard starts safe and offline, with options that this Streamlit knows."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.contracts.source import ROOT

CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))


def option_names(table: dict[str, object], prefix: str = "") -> list[str]:
    """Dotted names of the options that a configuration sets."""
    names: list[str] = []
    for key, value in table.items():
        names += option_names(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]
    return names


def test_streamlit_knows_every_option() -> None:
    from streamlit import config

    known = config.get_config_options()
    assert [name for name in option_names(CONFIG) if name not in known] == []


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("server", "headless", True),
        ("server", "address", "127.0.0.1"),
        ("server", "enableCORS", True),
        ("server", "enableXsrfProtection", True),
        ("browser", "gatherUsageStats", False),
        ("client", "showErrorDetails", "none"),
        ("client", "showErrorLinks", False),
    ],
)
def test_safe_values(section: str, key: str, value: object) -> None:
    assert CONFIG[section][key] == value


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_each_theme_has_ten_distinct_colours(mode: str) -> None:
    colours = CONFIG["theme"][mode]["chartCategoricalColors"]
    assert len(set(colours)) == len(colours) == 10
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for colour in colours)


def test_no_font_comes_from_the_network() -> None:
    fonts = [value for key, value in CONFIG["theme"].items() if key.lower().endswith("font")]
    assert fonts
    assert all("://" not in font and ":" not in font for font in fonts)
    assert "fontFaces" not in CONFIG["theme"]
