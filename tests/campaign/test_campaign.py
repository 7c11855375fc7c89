"""Every engine against enumeration in long double, on as many random models as there is time for.

``pytest tests/campaign -m campaign --campaign-models 1000000``; CONTRIBUTING.md says more.
"""

from __future__ import annotations

import campaign.bounds
import campaign.chains
import campaign.graphs
import campaign.loopy
import campaign.magnitudes
import campaign.relaxed
import campaign.sampling
import campaign.structured
import campaign.trees  # noqa: F401
import pytest
from campaign.harness import FAMILIES, Plan, Tally, run_case, run_family
from oracles import LONG_IS_LONGER

pytestmark = pytest.mark.skipif(
    not LONG_IS_LONGER, reason="the oracle needs a long double with more digits than a double"
)


@pytest.fixture(scope="module")
def only(request: pytest.FixtureRequest) -> tuple[str, int, int] | None:
    """Return family, seed and index of --campaign-case."""
    text = request.config.getoption("--campaign-case")
    if text is None:
        return None
    family, *numbers = text.split("/")
    if family not in FAMILIES or len(numbers) != 2 or not all(n.isdecimal() for n in numbers):
        raise pytest.UsageError(
            f"--campaign-case: {text!r} is not FAMILY/SEED/INDEX with one of {', '.join(FAMILIES)}"
        )
    return family, int(numbers[0]), int(numbers[1])


@pytest.fixture(scope="module")
def plan(request: pytest.FixtureRequest) -> Plan:
    option = request.config.getoption
    shard, shards = option("--campaign-shard")
    models = option("--campaign-models")
    return Plan(option("--campaign-seconds"), models, option("--campaign-seed"), shard - 1, shards)


@pytest.mark.campaign
@pytest.mark.parametrize("name", list(FAMILIES))
def test_family(
    name: str, plan: Plan, only: tuple[str, int, int] | None, request: pytest.FixtureRequest
) -> None:
    which = FAMILIES[name]
    if only is None:
        tally = run_family(which, plan)
    elif only[0] != name:
        pytest.skip(f"--campaign-case asks for {only[0]}")
    else:
        tally = Tally()
        run_case(which, only[1], only[2], tally)
    request.config.campaign[name] = tally
    told = "\n".join(tally.failures)
    assert not tally.failures, f"{told}\nRun one again with --campaign-case FAMILY/SEED/INDEX"
    assert tally.checks > 0 or tally.models == 0  # a shard of very few


@pytest.mark.parametrize("name", list(FAMILIES))
def test_some_of_each_family(name: str) -> None:
    """A few run in every suite, twice: a case is a function of its family, seed and index."""
    once, twice = Tally(), Tally()
    for index in range(8):
        run_case(FAMILIES[name], 5, index, once)
        run_case(FAMILIES[name], 5, index, twice)
    assert not once.failures
    assert once.checks == twice.checks > 0


def test_a_wrong_answer_is_told() -> None:
    from campaign.harness import Case, Family

    def wrong(case: Case) -> None:
        case.close("a number", case.rng.random(), 2.0, 1e-3)

    def broken(case: Case) -> None:
        case.close("a number", float("nan"), 2.0, 1e300)

    for run in (wrong, broken):
        tally = run_family(Family("wrong", run, 1e9), Plan(None, 100))
        assert len(tally.failures) == 10
        assert tally.failures[0].startswith("wrong/0/0: a number")
