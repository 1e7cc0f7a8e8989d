"""What is told of what happens: metrics, spans, and log lines."""
