"""The plan as data: which tasks inference runs, and what each waits for (SMM11).

A `Plan` is what an engine gave the pool: plain arrays, one entry a task, with the dependencies in
compressed rows.

- `_tasks.py`: `Plan` and `Kind`, the data and the laws it obeys
- `_record.py`: `plan`, what `infer` runs for a model, and `record`, what it ran
- `_simulate.py`: `simulate` on virtual cores, by messages or with measured times
"""

from valuesparse.schedule._record import Recording, plan, record
from valuesparse.schedule._simulate import Simulation, simulate
from valuesparse.schedule._tasks import Kind, Plan

__all__ = [
    "Kind",
    "Plan",
    "Recording",
    "Simulation",
    "plan",
    "record",
    "simulate",
]
