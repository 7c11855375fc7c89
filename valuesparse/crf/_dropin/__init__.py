"""The packages that :func:`valuesparse.crf.install` puts in the place of others.

They hold names only: what stands behind a name is in :mod:`valuesparse.crf`.
"""
