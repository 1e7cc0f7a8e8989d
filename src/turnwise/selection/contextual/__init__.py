"""Stay with the active agent, or leave it, and for whom (behaviours C9, C17): one trained model over any set of agents."""

NOBODY = 0.85
"""The novelty above which nobody takes a message, unless the policy says otherwise: on requests it was not fitted to, a gate
that refuses 3 of 100 known ones at 0.5 would turn away many more."""
