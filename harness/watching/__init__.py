"""What is watched while a server is measured: its processes over time, and the host's network."""
