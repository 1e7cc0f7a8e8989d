"""Evaluation, tuning and linting: measures decisions on labelled cases, tunes thresholds, and finds problems in cards."""
