"""Questions about the published systems: one file each, with the sweeps that it takes and the answer made of them."""
