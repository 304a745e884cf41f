"""The look of every figure: one Plotly template in a light and a dark dress, registered once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import plotly.graph_objects as go
import plotly.io as pio

Mode = Literal["light", "dark"]
Scale = tuple[tuple[float, str], ...]

_AXIS: Final = re.compile(r"([xy]axis)\d+")


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one mode; `paper`, `surface`, `text` and `series` are those of the app's theme, Okabe-Ito first."""

    paper: str
    text: str
    muted: str
    grid: str
    line: str
    surface: str
    alert: str
    series: tuple[str, ...]


PALETTES: Final[dict[Mode, Palette]] = {
    "light": Palette(
        paper="#FFFFFF",
        text="#1F2430",
        muted="#5B6472",
        grid="#E6E9EE",
        line="#9AA3AF",
        surface="#F3F5F8",
        alert="#C2410C",
        series=(
            "#0072B2",
            "#E69F00",
            "#009E73",
            "#CC79A7",
            "#56B4E9",
            "#D55E00",
            "#F0E442",
            "#000000",
            "#882255",
            "#999999",
        ),
    ),
    "dark": Palette(
        paper="#12151B",
        text="#F1F3F6",
        muted="#A7B0BD",
        grid="#272D38",
        line="#5B6472",
        surface="#1C212A",
        alert="#FB923C",
        series=(
            "#56B4E9",
            "#E69F00",
            "#009E73",
            "#CC79A7",
            "#0072B2",
            "#D55E00",
            "#F0E442",
            "#FFFFFF",
            "#AA4499",
            "#999999",
        ),
    ),
}

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_CIVIDIS: Final = (
    (0.0, "#00224E"),
    (0.125, "#123570"),
    (0.25, "#3B496C"),
    (0.375, "#575D6D"),
    (0.5, "#707173"),
    (0.625, "#8A8678"),
    (0.75, "#A59C74"),
    (0.875, "#C3B369"),
    (1.0, "#FEE838"),
)

_VIRIDIS_REVERSED: Final = (
    (0.0, "#FDE725"),
    (0.125, "#AADC32"),
    (0.25, "#5EC962"),
    (0.375, "#27AD81"),
    (0.5, "#21918C"),
    (0.625, "#2C728E"),
    (0.75, "#3B528B"),
    (0.875, "#472D7B"),
    (1.0, "#440154"),
)


def template_name(mode: Mode) -> str:
    """Name under which the template of a mode is registered with Plotly."""
    return f"trn2model-{mode}"


def palette(mode: Mode) -> Palette:
    """Colours of a mode."""
    return PALETTES[mode]


def utilization_scale(mode: Mode) -> Scale:
    """Colour scale for a utilisation from 0 to 1: the busiest stands out most against the paper."""
    return _reversed(_VIRIDIS_REVERSED) if mode == "dark" else _VIRIDIS_REVERSED


def share_scale(mode: Mode) -> Scale:
    """Colour scale for any other share from 0 to 1, built like `utilization_scale` and not to be mistaken for it."""
    return _CIVIDIS if mode == "dark" else _reversed(_CIVIDIS)


def colour_at(scale: Scale, share: float) -> str:
    """Colour of a scale at a position, blended between its stops.

    Examples
    --------
    >>> colour_at(((0.0, "#000000"), (1.0, "#FFFFFF")), 0.5)
    '#808080'
    """
    position = min(max(share, 0.0), 1.0)
    upper = next(index for index, stop in enumerate(scale) if stop[0] >= position)
    (low, start), (high, end) = scale[max(upper - 1, 0)], scale[upper]
    weight = (position - low) / (high - low) if high > low else 0.0
    return "#" + "".join(
        f"{round(a + (b - a) * weight):02X}" for a, b in zip(_channels(start), _channels(end), strict=True)
    )


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on a colour.

    Examples
    --------
    >>> ink_on("#FDE725"), ink_on("#440154")
    ('#000000', '#FFFFFF')
    """
    red, green, blue = (_linear(channel / 255) for channel in _channels(colour))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if luminance > 0.179 else "#FFFFFF"


def register_templates() -> None:
    """Register the templates of both modes with Plotly; calling it again changes nothing."""
    for mode in PALETTES:
        if template_name(mode) not in pio.templates:
            pio.templates[template_name(mode)] = go.layout.Template(_template(mode))


def ready(figure: Mapping[str, Any]) -> go.Figure:
    """Figure to hand to the screen: its template's settings written out in the layout, nothing checked again.

    The screen draws a new figure and then compares it with its own copy. A template never equals its copy, nor does an
    array without a revision, and either would have the chart drawn twice.
    """
    layout = {name: value for name, value in figure["layout"].items() if name != "template"}
    defaults = {**_settings(figure["layout"]["template"])}
    for name in layout:
        if axis := _AXIS.fullmatch(name):
            defaults[name] = defaults[axis[1]]
    pio.templates.default = None  # Streamlit names one when it is imported
    return go.Figure(figure["data"], {**_over(defaults, layout), "datarevision": 0}, _validate=False)


@cache
def _settings(name: str) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = pio.templates[name].layout.to_plotly_json()
    return settings


def _over(defaults: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    """Layout laid over its defaults, part by part."""
    parts = {
        name: _over(defaults[name], part)
        for name, part in layout.items()
        if isinstance(part, Mapping) and isinstance(defaults.get(name), Mapping)
    }
    return {**defaults, **layout, **parts}


def _template(mode: Mode) -> dict[str, Any]:
    colours = PALETTES[mode]
    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.line,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": colours.line,
        "ticklen": 4,
        "title": {"standoff": 8, "font": {"size": 12, "color": colours.muted}},
        "tickfont": {"size": 12, "color": colours.muted},
    }
    return {
        "layout": {
            "font": {"family": FONT, "size": 13, "color": colours.text},
            "paper_bgcolor": colours.paper,
            "plot_bgcolor": colours.paper,
            "colorway": list(colours.series),
            "title": {"x": 0, "xref": "container", "xanchor": "left", "pad": {"l": 8}, "font": {"size": 16}},
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "yanchor": "top", "y": -0.2, "x": 0, "font": {"size": 12}},
            "hoverlabel": {
                "bgcolor": colours.surface,
                "bordercolor": colours.line,
                "font": {"family": FONT, "size": 12, "color": colours.text},
                "align": "left",
            },
            "dragmode": False,
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.muted, "activecolor": colours.text},
        }
    }


def _reversed(scale: Scale) -> Scale:
    return tuple((1.0 - stop, colour) for stop, colour in reversed(scale))


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


register_templates()
