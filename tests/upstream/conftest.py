"""Source distributions and programs of others, fetched by pip when that is asked for."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

FETCH_LIMIT = 240.0
"""Seconds that pip may take for one package."""


def pip(*arguments: str) -> str | None:
    """Run pip; return what it complains about, None if nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=FETCH_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"pip took more than {FETCH_LIMIT:.0f} s"
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return (errors or done.stderr.splitlines() or ["pip failed"])[-1]


@pytest.fixture(scope="session")
def upstream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that things are fetched into, or were."""
    folder = request.config.getoption("--upstream") or os.environ.get("VALUESPARSE_UPSTREAM")
    if folder is None:
        if not request.config.getoption("--upstream-fetch"):
            nothing = "nothing to run: give --upstream-fetch, or --upstream with a folder"
            if request.config.getoption("markexpr") == "upstream":  # asked for: no silent success
                pytest.fail(nothing, pytrace=False)
            pytest.skip(nothing)
        return tmp_path_factory.mktemp("upstream")
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder).resolve()


@pytest.fixture(scope="session")
def sdist(request: pytest.FixtureRequest, upstream: Path) -> Callable[[str], Path]:
    """Return a function that gives the unpacked source of an installed distribution."""

    def get(name: str) -> Path:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{name}, the original, is not installed")
        if (upstream / name).is_dir():  # put there by hand
            return upstream / name
        stem = f"{name.replace('-', '_')}-{version}"
        folder = upstream / stem
        if folder.is_dir():
            return folder
        named = [upstream / f"{s}.tar.gz" for s in (stem, f"{name}-{version}")]
        if not any(path.exists() for path in named):
            if not request.config.getoption("--upstream-fetch"):
                pytest.skip(f"{named[0].name} is not in {upstream}, and nothing is to be fetched")
            # Says what pip says where there is no source distribution of this version.
            problem = pip(
                "download", "--no-deps", "--no-binary", name, "-d", str(upstream),
                f"{name}=={version}",
            )  # fmt: skip
            if problem is not None:
                pytest.skip(f"{name} {version} has no source that pip can fetch: {problem}")
        archive = next(path for path in named if path.exists())
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(upstream, filter="data")
            else:
                tar.extractall(upstream)
        if not folder.is_dir():
            (upstream / archive.name.removesuffix(".tar.gz")).rename(folder)
        return folder

    return get


@pytest.fixture(scope="session")
def packages(request: pytest.FixtureRequest, upstream: Path) -> Callable[..., Path]:
    """Return a function that gives a folder to import some packages from.

    They are installed without what they depend on, whose versions may clash with ours; each is
    named, if this environment does not have it.
    """

    def get(name: str, *requirements: str) -> Path:
        folder = upstream / "packages" / name
        if not (folder / "complete").exists():
            if not request.config.getoption("--upstream-fetch"):
                pytest.skip(f"{name} is not in {upstream}, and nothing is to be fetched")
            problem = pip(
                "install", "--no-deps", "--upgrade", "--target", str(folder), *requirements
            )
            if problem is not None:
                pytest.skip(f"{name} cannot be installed: {problem}")
            (folder / "complete").touch()
        return folder

    return get
