"""Stay with the active agent, or leave it, and for whom (behaviours C9, C17): one trained model over any set of agents."""

NOBODY = 0.85
"""The novelty above which nobody takes a message, unless the policy says otherwise: of requests like the examples 1 in 200 lies
above it (`matching.novelty.SURELY`), of others some more."""
