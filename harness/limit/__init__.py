"""The search for the highest load within a limit of the response time."""
