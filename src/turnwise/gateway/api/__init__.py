"""Our own API, below /api/v1. Its bodies can be had without its routes: clients read them, too."""
