"""Learning: optimisers that know nothing of the model they are for.

======================= ==============================================================
``lbfgs``               L-BFGS and OWL-QN, resumable, the same bits for any threads
``_linesearch``         its line searches
``online``              aggressive online learning (MSFXM10 Algorithm 1) and its losses
``_state``              what their states consist of, and the check of those from elsewhere
======================= ==============================================================
"""
