"""What is said, as several protocols tell and write it alike."""
