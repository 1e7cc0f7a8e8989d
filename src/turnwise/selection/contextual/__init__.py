"""A trained model that decides whether the conversation stays with the active agent (behaviours C9, C17).

It works for any set of agents.
"""

NOBODY = 0.85
"""Default novelty limit: above it a message is out of scope.

About 1 in 200 in-scope messages similar to the examples exceed it (`matching.novelty.SURELY`), and somewhat more of others.
"""
