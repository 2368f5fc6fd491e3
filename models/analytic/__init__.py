"""Closed-form and exact models: a result in microseconds, within the assumptions that each file states. One file each."""
