"""Stay with the active agent, or leave it, and for whom (behaviours C9, C17): one trained model over any set of agents."""
