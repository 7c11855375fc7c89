"""Damaged files: a clear error, or something that can be used; never anything else.

A *target* is a reader or a state file (``targets.py`` lists them all). It has seeds, a way to
damage them, and a function that reads a damaged file and uses what it holds, since much damage
shows only then. An error that is not documented is a defect; so are a
crash, more than 10 s of processor time, a hang, a warning, and memory beyond 64 MiB and 64 times
what is read.

The damaged file is determined by the target, ``--fuzz-seed`` and its number alone. It is read in a
child process (``child.py``) that notes the number first, so that a crash has its file; the parent
(``campaign.py``) starts another child and goes on.

==================================== ==========================================================
``pytest tests/fuzz``                 200 files for each target, 20 where a reader is slow
``... --fuzz-mutations 2000``         2000 files for each, as in .ci/run
``... --fuzz-seconds 3600``           as many as there is time for; it is shared by the targets
``... --fuzz-shard 2/4``              the second quarter of the files, for four processes
``... -k "[uai]" --fuzz-index 1234``  one file of one target; a failure prints this line
==================================== ==========================================================

Under AddressSanitizer and UndefinedBehaviorSanitizer, in a fresh environment ::

    VALUESPARSE_SANITIZE=address,undefined pip install ".[test]"
    .ci/sanitized address "$(command -v pytest)" tests/fuzz --fuzz-mutations 30000

On a machine that does much else, a file can seem to hang: it is said to after 60 s.

Pickles are not among the targets: Python's pickle runs what a file tells it to, so that no pickle
of unknown origin may be opened, with this package or another.
"""
