"""What a result is held against: marks, findings, and another tool's figures; thresholds and advice in one table."""
