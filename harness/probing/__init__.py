"""What this machine's primitives cost: which points to measure, their launches, what was found and whether it holds."""
