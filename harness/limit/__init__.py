"""The search for the highest load within a limit of the response time."""

FIGURES = ("p50", "p90", "p99", "mean")  # of the response time, that a limit can be of
