"""What a page shows, as a table of link keys beside the scenario's: each declared once, with its kind and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trn2model.specs.fields import AXES, Kind, ScenarioField, words
from trn2model.specs.link import Notice, decode_rows
from trn2model.ui.charts.sizes import size_name
from trn2model.ui.pages import collective, topology, validation
from trn2model.ui.pages.evidence import KIND_NAMES, gather
from trn2model.ui.pages.inference import USUAL_LIMITS

_TTFT_MS: Final = ("100", "200", "300", "500", "1000", "2000", "5000", "10000", "30000")
_TPOT_MS: Final = ("5", "10", "15", "20", "30", "40", "50", "75", "100", "200", "500")
_MOST_RANKS: Final = 65536
_USUAL: Final = collective.Exploration()


def _field(key: str, name: str, kind: Kind, label: str, text: str, default: object, **rules: Any) -> ScenarioField:  # noqa: ANN401 (checked by ScenarioField)
    return ScenarioField(key, kind, label, "View", text, default, name, **rules)


def _choice(key: str, name: str, label: str, text: str, options: Sequence[str], default: str = "") -> ScenarioField:
    return _field(key, name, "choice", label, text, default or options[0], choices=words(*options))


def _measured() -> tuple[str, ...]:
    return (validation.ALL, *gather().systems())


#: Topology page: which groups are drawn, and what colours the links.
_TOPOLOGY: Final = (
    _choice(
        "ax",
        "axis",
        "Traffic and groups of",
        "An axis of degree 1 has nothing to send.",
        (topology.ALL, *AXES),
    ),
    _field("gr", "group", "int", "Group", "Which of the axis's groups is outlined.", 0, minimum=0, maximum=65535),
    _field("dom", "system_shown", "int", "System", "Which of the systems is drawn.", 0, minimum=0, maximum=65535),
    _choice(
        "by",
        "link_colours",
        "Colour links by",
        "Share of the step a link is busy, or bytes against the fullest link.",
        ("utilisation", "bytes"),
    ),
)
#: Its collective explorer.
_COLLECTIVE: Final = (
    _choice(
        "xg",
        "explored_group",
        "Group",
        "An axis of the plan, with all its groups at once, or a number of ranks alone on the machine.",
        collective.GROUPS,
        _USUAL.group,
    ),
    _field(
        "xn",
        "explored_ranks",
        "int",
        "Ranks",
        "Consecutive ranks from the first.",
        _USUAL.ranks,
        minimum=2,
        maximum=_MOST_RANKS,
    ),
    _choice(
        "xo",
        "explored_operation",
        "Operation",
        "What the group does.",
        tuple(collective.OPERATION_NAMES.values()),
        collective.OPERATION_NAMES[_USUAL.op],
    ),
    _choice(
        "xa",
        "explored_algorithm",
        "Algorithm",
        "How the group does it.",
        (collective.CHEAPEST, *collective.ALGORITHM_NAMES.values()),
    ),
    _choice(
        "xb",
        "message_size",
        "Message size",
        "Size column of nccom-test: the whole buffer of a rank.",
        tuple(size_name(size) for size in collective.SIZES),
        size_name(_USUAL.size),
    ),
    _field(
        "xp",
        "play_steps",
        "bool",
        "Play the steps",
        "Colours the torus by the bytes of one step of the algorithm at a time.",
        False,
    ),
    _field(
        "xs",
        "played_step",
        "int",
        "Step",
        "Which step is played.",
        _USUAL.step,
        minimum=1,
        maximum=2 * (_MOST_RANKS - 1),
    ),
)
#: Inference page: the latencies that a service promises.
_SERVICE: Final = (
    _choice(
        "lt",
        "promised_ttft",
        "Promised time to first token [ms]",
        "Shades the region that keeps the promise, for a prompt that finds its replica free. Link key: lt.",
        _TTFT_MS,
        USUAL_LIMITS["lt"],
    ),
    _choice(
        "lp",
        "promised_tpot",
        "Promised time per output token [ms]",
        "Shades the region that keeps the promise, prefill stalls of full replicas included. Link key: lp.",
        _TPOT_MS,
        USUAL_LIMITS["lp"],
    ),
)
#: Validation page: which measurements are shown, and how errors are listed.
_VALIDATION: Final = (
    _choice("vk", "measured", "Measured", "What was measured.", tuple(KIND_NAMES.values())),
    _choice(
        "vt",
        "trust_class",
        "Trust class",
        "A: vendor, partner or peer-reviewed; B: third party with its configuration; C: a bound at most.",
        (validation.ALL, *validation.TRUST),
    ),
    _field(
        "vs",
        "measured_on",
        "choice",
        "Measured on",
        "Machine of the measurement.",
        validation.ALL,
        choices=_measured,
    ),
    _choice("vg", "errors_by", "Errors by", "What the table of errors has a row for.", validation.GROUPS),
    _field(
        "vb",
        "bounds",
        "bool",
        "Bounds",
        "Measurements that hold something unknown besides, such as waiting: the prediction should lie below them.",
        True,
    ),
)
#: every page-local key, by key
VIEW_FIELDS: Final[Mapping[str, ScenarioField]] = {
    row.key: row for row in (*_TOPOLOGY, *_COLLECTIVE, *_SERVICE, *_VALIDATION)
}


def decode_view(parameters: Mapping[str, str | Sequence[str]]) -> tuple[dict[str, str], tuple[Notice, ...]]:
    """What a link says of its page; never raises, whatever the link holds.

    Examples
    --------
    >>> texts, notices = decode_view({"ax": "tp", "by": "utilisation", "xg": ""})
    >>> texts, [notice.key for notice in notices]
    ({'ax': 'tp'}, ['xg'])
    """
    values, notices = decode_rows(tuple(VIEW_FIELDS.values()), parameters)
    rows = {row.name: row for row in VIEW_FIELDS.values()}
    texts = {rows[name].key: rows[name].format(value) for name, value in values.items() if value != rows[name].default}
    return texts, notices
