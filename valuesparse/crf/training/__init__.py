"""Training of linear-chain CRFs.

==================== =================================================================
``trainer``          pycrfsuite's ``Trainer``
``_parameters``      names, kinds and defaults of parameters
``_data``            sequences -> numbers
``_features``        which weights a model has
``_objective``       the loss of a corpus and its gradient, on every core
``_algorithms``      L-BFGS and online learning behind one face
``_sgd``             stochastic gradient descent
``_parts``           sequences for `valuesparse.learning.Online`
``_held_out``        sentences that say when to stop, and which weights to keep
``_checkpoint``      the state of training in a file
``_log``             CRFsuite's log: writing and reading it
==================== =================================================================
"""
