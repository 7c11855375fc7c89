"""Why some questions take more than ten times as long as `infer` on the same model.

A row of `questions.py` above that without a reason here is a cliff that nobody has looked at.
"""

from __future__ import annotations

__all__ = ["WORST", "reason"]

#: Multiples of `infer` beyond which a question needs a reason.
WORST = 10.0

_SWEEPS = "sweeps until it converges, 1000 where it does not; each 0.1 to 0.2 `infer`"
_LEFT_OUT = "gains of all factors, and a new tree of some; `infer` asks a tree it has"
_PAIRS = "writes 98 numbers for each marginal"
_LISTS = "few labels: `infer` has chunks of a long chain side by side, and this has not"
_BUDGET = "1 ms in Python for any size: supports of three tolerances are tried"
_BOUNDS = "as without bounds; then joints of what was left out, and a bisection"
_DUAL = "sweeps until they converge, 200 at most, and log Z of eight forests"
_PATHS = "up to 48 steps of two ascents, K³ for each edge on the path of each factor left out"
_ARCS = "a step asks the tree factor about the arcs of each factor left out"
_TABLES = "a new tree, with a table for each factor; `infer` asks a tree it has"
_WIDER = "extreme scores: a pass in logarithms, whose exponentials underflow"

#: The reason for each question of each kind of model that was above, on one machine or another.
REASONS: dict[tuple[str, str], str] = {
    ("chain", "decode 10-best"): _LISTS,
    ("chain", "entropy"): _WIDER,
    ("chain", "infer, work= half"): _BUDGET,
    ("chain", "infer, zeta=0.9"): _LISTS,
    ("chain", "pairwise_bounds"): _PAIRS,
    ("tree", "entropy"): _WIDER,
    ("tree", "infer, work= half"): _BUDGET,
    ("tree", "pairwise_bounds"): _PAIRS,
    ("graph", "decode, method='bp'"): _SWEEPS,
    ("graph", "decode, method='trw'"): _SWEEPS,
    ("graph", "factor_marginals"): _TABLES,
    ("graph", "gain"): "tables and marginals of all factors are gathered in Python",
    ("graph", "infer, method='bp'"): _SWEEPS,
    ("graph", "infer, method='mean_field'"): "ascents from four points, up to 127 steps each",
    ("graph", "infer, method='structured_mean_field'"): _PATHS,
    ("graph", "infer, method='trw'"): _SWEEPS,
    ("graph", "infer, zeta=0.9"): "a tree for each segment between islands, in every round",
    ("graph", "pairwise"): _TABLES,
    ("graph", "preconditioner"): "60 models are tried: an eigenvalue and a new tree of each",
    ("graph", "relax"): _LEFT_OUT,
    ("graph", "select, and bounds"): _BOUNDS,
    ("graph", "select, half of the factors"): _LEFT_OUT,
    ("graph", "trw_dual_bound"): _DUAL,
    ("sentence", "infer, method='structured_mean_field'"): _ARCS,
    ("sentence", "decode, method='lp'"): "a linear program, by HiGHS",
    ("sentence", "relax"): _LEFT_OUT,
    ("sentence", "select, and bounds"): _LEFT_OUT,
    ("sentence", "select, half of the factors"): _LEFT_OUT,
}


def reason(kind: str, name: str, multiple: float) -> str:
    """Return why a question is dear; "?" where nobody knows, nothing where it is not."""
    if multiple <= WORST:
        return ""
    return REASONS.get((kind, name), "?")
