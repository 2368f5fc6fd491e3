"""Servers that are not ours: what a user says of one, how it is reached, and the first look at it."""
