"""Every reader and state file against damaged files."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.campaign import Children, Report
from fuzz.targets import TARGETS

# In every run of the tests; .ci/run asks for ten times as many.
MUTATIONS = 200
# With a budget of time alone, there is no end to the files.
ENDLESS = 10**9


class Budget:
    """Time that the targets which are left share."""

    def __init__(self, seconds: float | None, targets: int) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds
        self.left = targets

    def share(self) -> float:
        """Return the seconds of the next target."""
        if self.end is None:
            return 1e9
        share = max(0.0, self.end - time.monotonic()) / max(1, self.left)
        self.left -= 1
        return share


@pytest.fixture(scope="session")
def children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    """Return what reads files in other processes."""
    found = Children(tmp_path_factory.mktemp("fuzz"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def budget(request: pytest.FixtureRequest) -> Budget:
    """Return the time of all targets that were chosen."""
    chosen = [item for item in request.session.items if "children" in item.fixturenames]
    return Budget(request.config.getoption("--fuzz-seconds"), len(chosen))


def described(name: str, seed: int, report: Report) -> str:
    """Return the defects, each with the command that shows it."""
    lines = [f"{len(report.failures)} kinds of defects among {report.done} damaged files"]
    for kind, found in report.failures.items():
        lines += [
            "",
            f"{name}: {kind} ({found['count']} times), the first with",
            f'  python -m pytest tests/fuzz -k "[{name}]" --fuzz-seed {seed} '
            f"--fuzz-index {found['index']}",
            str(found["text"]),
        ]
    return "\n".join(lines)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files(
    name: str, children: Children, budget: Budget, request: pytest.FixtureRequest, tmp_path: Path,
    record_property: pytest.RecordProperty,
) -> None:  # fmt: skip
    target, option = TARGETS[name], request.config.getoption
    missing = [need for need in target.needs if importlib.util.find_spec(need) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    seed, only = option("--fuzz-seed"), option("--fuzz-index")
    if only is not None:
        kept = tmp_path / "file"
        report = children.run(name, seed, only, 1, 1, keep=str(kept))
        assert not report.failures, f"{described(name, seed, report)}\nThe file: {kept}"
        return
    wanted = option("--fuzz-mutations")
    if wanted is None:
        wanted = MUTATIONS if option("--fuzz-seconds") is None else ENDLESS
    shard, shards = option("--fuzz-shard")
    count = len(range(shard - 1, max(1, int(wanted * target.share)), shards))
    report = children.run(name, seed, shard - 1, shards, count, budget.share())
    for key in ("done", "taken", "refused", "work", "seconds", "most_memory", "most_seconds"):
        record_property(key, getattr(report, key))
    print(
        f"{name}: {report.done} files, {report.taken} taken, {report.refused} refused, "
        f"{report.work:.1f} s of processor time, at most {report.most_memory / 2**20:.0f} MiB and "
        f"{report.most_seconds:.2f} s for one"
    )
    assert not report.failures, described(name, seed, report)
    if report.done >= 1000:  # both happen, or little is tested
        assert report.taken > report.done // 200
        assert report.refused > report.done // 50
