"""Dispatchers: which process works on which session, and when. The runner uses the local one by default."""
