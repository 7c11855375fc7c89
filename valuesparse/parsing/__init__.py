"""Dependency trees of sentences: files, sums over trees, and the best tree.

============== =====================================================