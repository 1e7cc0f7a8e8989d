"""The cases of `turnwise.testing.session_store_suite`, by subject."""
