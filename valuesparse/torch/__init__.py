"""A CRF layer for PyTorch whose gradients are marginals, computed on the CPU without the GIL.

Where things are:

- ``_crf``: the module, :class:`CRF`; what `torchcrf.CRF` has, and more.
- ``_constraints``: tags and transitions that are allowed.
- ``_padding``: padded batches and masks, and the ragged rows that chains are made of.
- ``_functions``: the autograd functions; ``_curvature``: derivatives of marginals.
"""

from __future__ import annotations

from valuesparse._extras import require

try:
    from valuesparse.torch._crf import CRF
except ModuleNotFoundError:
    require("torch", "torch")  # if it is missing, this says how to get it
    raise

__all__ = ["CRF"]
