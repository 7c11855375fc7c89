"""Dependency trees of sentences: files, sums over trees, and the best tree.

============== =====================================================================
``_trees``      marginals of arcs, and the best tree, of scores
``_graph``      a sentence as a factor graph; ``_parts``, ``_flow``: what it is made of
``_sentences``  a sentence of a treebank
``_conll``      the lines of a sentence; ``_files``: files of them
``_evaluation`` how well sentences are parsed
``_encoding``   sentences as arrays of numbers
``_examples``   the parts of a treebank, for learning; ``_training``: a parser from it
``_parser``     a trained parser; ``_model``: its file; ``_parses``: what it yields
``_corpora``    whole files that are parsed
============== =====================================================================
"""

from valuesparse.parsing._evaluation import Evaluation, evaluate
from valuesparse.parsing._examples import Examples
from valuesparse.parsing._files import read_conll, write_conll
from valuesparse.parsing._graph import graph
from valuesparse.parsing._parser import Parser, load
from valuesparse.parsing._parses import Parses, Summary
from valuesparse.parsing._sentences import Sentence
from valuesparse.parsing._training import Progress, train
from valuesparse.parsing._trees import ArcMarginals, BestTrees, best_trees, marginals

__all__ = [
    "ArcMarginals",
    "BestTrees",
    "Evaluation",
    "Examples",
    "Parser",
    "Parses",
    "Progress",
    "Sentence",
    "Summary",
    "best_trees",
    "evaluate",
    "graph",
    "load",
    "marginals",
    "read_conll",
    "train",
    "write_conll",
]
