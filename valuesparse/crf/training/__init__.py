"""Training of linear-chain CRFs: see `valuesparse.crf.training.trainer`."""
