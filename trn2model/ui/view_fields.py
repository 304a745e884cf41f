"""What a page shows, as a table of link keys beside the scenario's: each declared once, with its class and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from trn2model.specs.fields import AXES, BoolField, ChoiceField, IntField, ScenarioField, words
from trn2model.specs.link import Notice, decode_rows, link_texts
from trn2model.text import size_name
from trn2model.ui.pages import collective, topology, validation
from trn2model.ui.pages.evidence import KIND_NAMES, gather
from trn2model.ui.pages.inference import USUAL_LIMITS

_TTFT_MS: Final = ("100", "200", "300", "500", "1000", "2000", "5000", "10000", "30000")
_TPOT_MS: Final = ("5", "10", "15", "20", "30", "40", "50", "75", "100", "200", "500")
_MOST_RANKS: Final = 65536
_USUAL: Final = collective.Exploration()


def _measured() -> tuple[str, ...]:
    return (validation.ALL, *gather().systems())


# Tables: link key, label and group; then name, default and rules; then the help text.
# fmt: off
#: Topology page: which groups are drawn, and what colours the links.
_TOPOLOGY: Final = (
    ChoiceField("ax", "Traffic and groups of", "View",
        name="axis", default=topology.ALL, choices=words(topology.ALL, *AXES),
        help="An axis of degree 1 has nothing to send."),
    IntField("gr", "Group", "View",
        name="group", default=0, minimum=0, maximum=_MOST_RANKS - 1,
        help="Which of the axis's groups is outlined."),
    IntField("dom", "System", "View",
        name="system_shown", default=0, minimum=0, maximum=_MOST_RANKS - 1,
        help="Which of the systems is drawn."),
    ChoiceField("by", "Colour links by", "View",
        name="link_colours", default="utilisation", choices=words("utilisation", "bytes"),
        help="Share of the step a link is busy, or bytes against the fullest link."),
)
#: Step of a collective; a plan may have fewer steps than a link may name.
PLAYED_STEP: Final = IntField("xs", "Step", "View",
    name="played_step", default=_USUAL.step, minimum=1, maximum=2 * (_MOST_RANKS - 1),
    help="Which step is played.")
#: Its collective explorer.
_COLLECTIVE: Final = (
    ChoiceField("xg", "Group", "View",
        name="explored_group", default=_USUAL.group, choices=words(*collective.GROUPS),
        help="An axis of the plan, with all its groups at once, or a number of ranks alone on the machine."),
    IntField("xn", "Ranks", "View",
        name="explored_ranks", default=_USUAL.ranks, minimum=2, maximum=_MOST_RANKS,
        help="Consecutive ranks from the first."),
    ChoiceField("xo", "Operation", "View",
        name="explored_operation", default=collective.OPERATION_NAMES[_USUAL.op],
        choices=words(*collective.OPERATION_NAMES.values()),
        help="What the group does."),
    ChoiceField("xa", "Algorithm", "View",
        name="explored_algorithm", default=collective.CHEAPEST,
        choices=words(collective.CHEAPEST, *collective.ALGORITHM_NAMES.values()),
        help="How the group does it."),
    ChoiceField("xb", "Message size", "View",
        name="message_size", default=size_name(_USUAL.size),
        choices=words(*(size_name(size) for size in collective.SIZES)),
        help="Size column of nccom-test: the whole buffer of a rank."),
    BoolField("xp", "Play the steps", "View",
        name="play_steps", default=False,
        help="Colours the torus by the bytes of one step of the algorithm at a time."),
    PLAYED_STEP,
)
#: Inference page: the latencies that a service promises.
_SERVICE: Final = (
    ChoiceField("lt", "Promised time to first token [ms]", "View",
        name="promised_ttft", default=USUAL_LIMITS["lt"], choices=words(*_TTFT_MS),
        help="Shades the region that keeps the promise, for a prompt that finds its replica free. Link key: lt."),
    ChoiceField("lp", "Promised time per output token [ms]", "View",
        name="promised_tpot", default=USUAL_LIMITS["lp"], choices=words(*_TPOT_MS),
        help="Shades the region that keeps the promise, prefill stalls of full replicas included. Link key: lp."),
)
#: Validation page: which measurements are shown, and how errors are listed.
_VALIDATION: Final = (
    ChoiceField("vk", "Measured", "View",
        name="measured", default=next(iter(KIND_NAMES.values())), choices=words(*KIND_NAMES.values()),
        help="What was measured."),
    ChoiceField("vt", "Trust class", "View",
        name="trust_class", default=validation.ALL, choices=words(validation.ALL, *validation.TRUST),
        help="A: vendor, partner or peer-reviewed; B: third party with its configuration; C: a bound at most."),
    ChoiceField("vs", "Measured on", "View",
        name="measured_on", default=validation.ALL, choices=_measured,
        help="Machine of the measurement."),
    ChoiceField("vg", "Errors by", "View",
        name="errors_by", default=validation.GROUPS[0], choices=words(*validation.GROUPS),
        help="What the table of errors has a row for."),
    BoolField("vb", "Bounds", "View",
        name="bounds", default=True,
        help="Measurements that hold something unknown besides, such as waiting: the prediction should lie below "
        "them."),
)
# fmt: on
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
    rows = tuple(VIEW_FIELDS.values())
    values, notices = decode_rows(rows, parameters)
    return link_texts(rows, values), notices
