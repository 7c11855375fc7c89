"""Children's sources are no tests, and importing them here would take seconds."""

collect_ignore = [
    "crf_operations.py",
    "failing_child.py",
    "more_operations.py",
    "operations.py",
    "parse_operations.py",
    "tree_operations.py",
]
