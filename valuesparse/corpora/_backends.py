"""Hand the shards of a corpus to a backend: threads, or one of joblib."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, suppress
from typing import Any

from valuesparse._extras import require
from valuesparse.corpora._jobs import Done, Halt, Halted, ShardJob, ShardWork
from valuesparse.threads import resolve

__all__ = ["BACKENDS", "REGISTERED", "run_jobs"]

BACKENDS = ("threads", "loky", "dask", "ray", "spark")
#: Those that have to be registered with joblib in Python first.
REGISTERED = ("ray", "spark")

# Shards per worker that are handed to backends which only say when all are done.
_WAVE = 8


def run_jobs(
    work: ShardWork,
    todo: Sequence[ShardJob],
    run: str,
    backend: str,
    jobs: int | None,
    scheduler: str | None,
) -> Generator[Done, None, None]:
    """Do shards; yield what each was when it is done.

    Raises
    ------
    OSError
        A process that did a shard was ended; or as of `work`.
    """
    if not todo:
        return
    todo = [job._replace(run=run) for job in todo]
    if backend not in ("threads", "loky"):
        # Machines may differ in how they tell the times and numbers of files that they share.
        todo = [job._replace(seen=job.seen[:1]) for job in todo]
    halt = Halt()
    with ExitStack() as stack:
        stack.callback(halt.end)
        more: tuple[Halt, ...] = ()
        if backend == "threads":
            threads = resolve(jobs)
            workers = min(threads, len(todo))
            # Threads that shards leave idle work inside of them.
            each = max(1, threads // workers)
            todo = [job._replace(threads=each) for job in todo]
            if workers == 1:
                yield from map(work, todo)
                return
            name, jobs, more = "threading", workers, (halt,)
        else:
            name = backend
        import joblib  # here: it takes a while to import

        if backend == "dask":
            require("dask", "dask", "distributed")
            import distributed

            if scheduler is not None:
                stack.enter_context(distributed.Client(scheduler, set_as_default=True))
            else:
                try:
                    distributed.get_client()
                except ValueError as error:
                    raise ValueError(
                        "backend 'dask' needs the address of its scheduler: scheduler=, or "
                        "--scheduler on the command line; or a distributed.Client made before"
                    ) from error
        stack.enter_context(joblib.parallel_config(backend=name, n_jobs=jobs or -1))
        calls = [joblib.delayed(work)(job, *more) for job in todo]
        if joblib.parallel.get_active_backend()[0].supports_return_generator:
            parallel = joblib.Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs")
            yield from _given_up(parallel(calls), halt, threads=bool(more))
            return
        # Ray's and Spark's return lists only: in waves, so that progress can be told.
        wave = _WAVE * joblib.effective_n_jobs(jobs or -1)
        for at in range(0, len(calls), wave):
            yield from joblib.Parallel()(calls[at : at + wave])


def _given_up(results: Any, halt: Halt, *, threads: bool) -> Iterator[Any]:
    """Yield results; no warning of cancelled shards comes when the reader stops early.

    Raises
    ------
    OSError
        A process that did a shard was ended.
    """
    try:
        while (result := next(results, None)) is not None:  # joblib sees no reader leave
            yield result
    except BrokenExecutor as error:
        raise ChildProcessError(
            "a worker was ended before its shard was done, as those are that want too much memory; "
            "run the same again, and it goes on from here; fewer --jobs (jobs=) take less memory"
        ) from error
    except GeneratorExit:
        halt.end()
        with warnings.catch_warnings(), suppress(Halted):
            warnings.simplefilter("ignore", UserWarning)
            while threads and next(results, None) is not None:
                pass  # up to the first that has been halted
            results.close()
        raise
