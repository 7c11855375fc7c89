"""Dependency trees of sentences: files, sums over trees, and the best tree.

============== ============================================================
``_trees``      marginals of arcs, and the best tree, of scores
``_sentences``  a sentence of a treebank
``_conll``      the lines of a sentence; ``_files``: files of them
``_evaluation`` how well sentences are parsed
============== ============================================================
"""

from valuesparse.parsing._evaluation import Evaluation, evaluate
from valuesparse.parsing._files import read_conll, write_conll
from valuesparse.parsing._sentences import Sentence
from valuesparse.parsing._trees import ArcMarginals, BestTrees, best_trees, marginals

__all__ = [
    "ArcMarginals",
    "BestTrees",
    "Evaluation",
    "Sentence",
    "best_trees",
    "evaluate",
    "marginals",
    "read_conll",
    "write_conll",
]
