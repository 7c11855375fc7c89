"""Ask one operation while its native allocations fail, one after the other; run as a script.

Arguments: the preloaded library, the operation, how many of the first allocations fail, and how
many more, spread over the rest. Or "list": the operations' names.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import crf_operations  # noqa: F401
import more_operations  # noqa: F401
import parse_operations  # noqa: F401
import tree_operations  # noqa: F401
from operations import OPERATIONS, digest

from valuesparse import _forest, _parsing


def fresh(act: Any) -> tuple[Any, BaseException | None]:
    """Call in a thread of its own, with no memory left from earlier calls."""
    for engine in (_forest, _parsing):
        engine.free_workspaces()
    answer: list[Any] = []

    def work() -> None:
        try:
            answer.extend([act(), None])
        except BaseException as error:
            answer.extend([None, error])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return answer[0], answer[1]


def main(library: str, name: str, first: int, spread: int) -> None:
    allocator = ctypes.CDLL(library)
    allocator.vs_arm.argtypes = [ctypes.c_long]
    allocator.vs_disarm.restype = allocator.vs_failed.restype = ctypes.c_long
    prepare = OPERATIONS[name]

    def ask(act: Any, at: int) -> tuple[Any, BaseException | None, int, int]:
        def armed() -> Any:
            allocator.vs_arm(at)
            try:
                return act()
            finally:
                allocator.vs_disarm()

        answer, error = fresh(armed)
        return answer, error, allocator.vs_disarm(), allocator.vs_failed()

    fresh(prepare())  # what is imported when it is first needed
    answer, error, count, _ = ask(prepare(), -1)
    if error is not None:
        raise error
    want = digest(answer)
    points = list(range(min(first, count)))
    points += [first + (count - first) * i // spread for i in range(spread) if count > first]
    failures = errors = done_without = reached = 0
    for at in sorted(set(points)):
        print(f"{name}: allocation {at} of {count}", file=sys.stderr, flush=True)
        act = prepare()
        answer, error, _, failed = ask(act, at)
        failures += failed > 0
        reached += at < count
        if isinstance(error, MemoryError) and failed:
            errors += 1
        elif error is not None:
            traceback.print_exception(error)
            raise SystemExit(f"{name}: allocation {at} failed, and this came instead")
        else:
            done_without += failed > 0
            if digest(answer) != want:
                raise SystemExit(f"{name}: allocation {at} failed, and the answer is wrong")
        answer, error = fresh(act)
        if error is not None:
            raise error
        if digest(answer) != want:
            raise SystemExit(f"{name}: wrong answer after the failure of allocation {at}")
    # Threads and dictionaries may allocate a little less the second time.
    if failures < 0.9 * reached - 2:
        raise SystemExit(f"{name}: of {reached} allocations that should fail {failures} did")
    print(
        f"{name}: {count} allocations, {failures} failures: {errors} MemoryError, "
        f"{done_without} right answers"
    )


if __name__ == "__main__":
    if sys.argv[1] == "list":
        print(*OPERATIONS)
        sys.exit()
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
