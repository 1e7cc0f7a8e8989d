"""Several processes on one store, as a program of operations drives them, and a model of what must be true of the log."""
