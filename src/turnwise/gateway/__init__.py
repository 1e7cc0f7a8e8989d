"""The HTTP gateway: one package for each protocol, and shared services that check the caller's rights."""
