"""How an engine prefills: what its passes over prompts cost, and which prompts share one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Shares of a pass that sum to one do so up to rounding.
_ROUNDING: Final = 1e-9


class PassTime(NamedTuple):
    """Chunks of a pass: how long each takes, and how long it keeps the replica from other work.

    In seconds. The two are alike on one pipeline stage; with more, other work follows before the pass has left the
    last one.
    """

    latency: Floats
    interval: Floats


#: pass over prompts of one length: tokens of each, prompts. [token], [1] -> [s]
PromptTime = Callable[[float, int], PassTime]


def one_prompt(_tokens: float) -> int:
    """Prompts of a pass where every prompt is prefilled by itself."""
    return 1


@dataclass(frozen=True, slots=True)
class Prefill:
    """What a pass costs and holds.

    `most_prompts` gives how many prompts of a length fill a pass; unequal ones fill it in proportion. A pass of
    unequal prompts costs the longest if it is `padded`, else the mean. With `interleaved` chunks one decode step runs
    between two of them; with `overlap` decode steps run inside the pass, and that share of the shorter one is hidden.
    """

    prompt_time: PromptTime
    most_prompts: Callable[[float], int] = one_prompt
    padded: bool = True
    interleaved: bool = False
    overlap: float = 0.0

    def take(self, waiting: Iterable[float], most: int) -> tuple[int, bool]:
        """Prompts of the next pass, first come first served."""
        count, room = 0, 1.0 + _ROUNDING
        for tokens in waiting:
            room -= 1.0 / self.most_prompts(tokens)
            if room < 0.0:
                return max(count, 1), True
            if count == most:
                return count, False
            count += 1
        return count, room * self.most_prompts(tokens) < 1.0 if count else False

    def pass_time(self, lengths: Sequence[float]) -> PassTime:
        """Time of a pass."""
        number = len(lengths)
        if min(lengths) == max(lengths):
            return self.prompt_time(lengths[0], number)
        each = [self.prompt_time(tokens, number) for tokens in lengths]
        both = np.zeros((2, number, max(len(one.latency) for one in each)))
        for row, one in enumerate(each):
            both[:, row, : len(one.latency)] = one
        latency, interval = both.max(axis=1) if self.padded else both.mean(axis=1)
        return PassTime(latency, interval)

    def stall_per_pass(self, tokens: float) -> float:
        r"""Time for which a pass stalls decode however few prompts it holds [s].

        .. math:: (1 - f) \frac{p\,I_1 - I_p}{p - 1}
        """
        most = self.most_prompts(tokens)
        if most == 1:
            return 0.0
        alone, full = (float(self.prompt_time(tokens, number).interval.sum()) for number in (1, most))
        return (1.0 - self.overlap) * max(most * alone - full, 0.0) / (most - 1)
