"""A run over a corpus: shards into a folder, and on from where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from valuesparse._validation import as_choice, as_count
from valuesparse.corpora._backends import BACKENDS, run_jobs
from valuesparse.corpora._jobs import ShardJob, ShardWork, WrittenCounts, require_unchanged
from valuesparse.corpora._lock import locked
from valuesparse.corpora._run_file import RunFile, tidy

__all__ = ["SHARD", "CorpusReport", "How", "how_of", "run_shards"]

#: About the bytes of a shard of text.
SHARD = 4 << 20

Progress = Callable[[int, int], object]


class CorpusReport(NamedTuple):
    """The outputs and counts of a run.

    Attributes
    ----------
    outputs : tuple of Path
        The files of the whole output, in the order of the inputs.
    sentences, tokens : int
        How many this run did.
    skipped : int
        Shards that an earlier run had finished.
    """

    outputs: tuple[Path, ...]
    sentences: int
    tokens: int
    skipped: int


class How(NamedTuple):
    """Who does the work, and in what pieces; nothing of it shows in the output but their size."""

    backend: str
    jobs: int | None
    scheduler: str | None
    shard_bytes: int


def how_of(backend: str, jobs: int | None, scheduler: str | None, shard_bytes: int) -> How:
    """Return the arguments, once they are checked.

    Raises
    ------
    ValueError
        An argument is wrong.
    """
    as_choice("backend", backend, BACKENDS, "not")
    if scheduler is not None and backend != "dask":
        raise ValueError("scheduler is for backend='dask'")
    shard_bytes = as_count("shard_bytes", shard_bytes, at_least=1)
    jobs = None if jobs is None else as_count("jobs", jobs, at_least=1)
    return How(backend, jobs, scheduler, shard_bytes)


def run_shards(
    work: ShardWork,
    plan: Sequence[ShardJob],
    folder: Path,
    identity: Mapping[str, Any],
    how: How,
    progress: Progress | None = None,
    tell: Callable[[WrittenCounts], object] | None = None,
) -> CorpusReport:
    """Do the shards of a plan that are not in the folder yet.

    Parameters
    ----------
    work : Work
        Does one.
    plan : sequence of Job
        All shards, in the order of the inputs.
    folder : Path
        Where they go; it is made when it is not there, and locked meanwhile.
    identity : mapping
        All that decides the output, as JSON holds it: the folder keeps it.
    how : How
        Who does the work.
    progress : callable, optional
        Called with the bytes done and all bytes, after each shard.
    tell : callable, optional
        Called with the counts of each shard.

    Raises
    ------
    ValueError
        Two shards would have the same name; a file has changed since it was planned; or as of
        :class:`RunFile`, `locked` and `work`.
    OSError
        A file cannot be read or written, or a worker was ended.
    """
    targets = [job.target for job in plan]
    if len(set(targets)) != len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise ValueError(f"inputs: two files would be written to {Path(twice).name}; rename one")
    folder.mkdir(parents=True, exist_ok=True)
    sentences = tokens = 0
    with locked(folder) as run:
        state = RunFile(folder, identity, {Path(target).name for target in targets})
        tidy(folder)
        todo = [job for job in plan if Path(job.target).name not in state.finished]
        named = {Path(job.target).name: job for job in todo}
        total = sum(job.size for job in plan)
        done = total - sum(job.size for job in todo)
        if progress is not None:
            progress(done, total)
        jobs = run_jobs(work, todo, run, how.backend, how.jobs, how.scheduler)
        try:
            with closing(jobs) as shards:
                for found in shards:
                    require_unchanged(named[found.shard.name])
                    state.note(found.shard)
                    done, sentences = done + found.size, sentences + found.counts.sentences
                    tokens += found.counts.tokens
                    if tell is not None:
                        tell(found.counts)
                    if progress is not None:
                        progress(done, total)
        finally:
            with suppress(OSError):  # it may be open still, where that keeps it
                tidy(folder)
            state.save()
    return CorpusReport(tuple(map(Path, targets)), sentences, tokens, len(plan) - len(todo))
