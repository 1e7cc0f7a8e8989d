"""Real processes that share one store, and what they do and suffer: for the tests of survival and for its figures."""
