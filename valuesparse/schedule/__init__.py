"""The plan as data: which messages inference sends and what each waits for (SMM11).

A plan is a `Schedule`: plain arrays, one entry a task, with the dependencies in compressed rows.
Builders turn a model's structure into a schedule and executors run it, all of them the same one:

- `_graph.py`: `Schedule` and `Kind`, the data and the laws it obeys
- `_chain.py`: `chain_schedule`, chains with or without islands
- `_plan.py`: `plan`, the schedule that `infer` runs for a model
- `_simulate.py`: `simulate` on virtual cores, with unit or measured costs
"""

from valuesparse.schedule._chain import chain_schedule
from valuesparse.schedule._graph import Kind, Schedule
from valuesparse.schedule._plan import Plan, plan
from valuesparse.schedule._simulate import Simulation, simulate

__all__ = [
    "Kind",
    "Plan",
    "Schedule",
    "Simulation",
    "chain_schedule",
    "plan",
    "simulate",
]
