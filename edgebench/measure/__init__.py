"""What a file answers and how fast: feeding it, running it, and judging both."""
