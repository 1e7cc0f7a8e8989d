"""Settings: what `turnwise.yaml` says, checked and with the line of everything in it. Names no implementation."""
