"""The front door over HTTP: a thin folder for each protocol, and one door behind them all where rights are checked."""
