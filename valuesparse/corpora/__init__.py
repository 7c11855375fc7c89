"""Whole corpora, whatever is done with them: files cut into shards, done anywhere, resumable.

============== ======================================================================
``_text``      line files: cut into shards, read as a stream
``_stream``    a pipe, which is read once
``_blocks``    sentences between blank lines, and how many are read together
``_ahead``     the next piece is read while this one is worked on
``_files``     files that appear when they are complete
``_lock``      one run at a time in a folder
``_run_file``  whose run a folder holds, and which shards are done
``_jobs``      a shard; how files are cut into them, how one is written
``_backends``  who does the shards: threads, or what joblib knows
``_run``       a whole run
============== ======================================================================

`valuesparse.crf` tags by these, and `valuesparse.parsing` parses.
"""

from __future__ import annotations

from valuesparse.corpora._run import CorpusReport

__all__ = ["CorpusReport"]
