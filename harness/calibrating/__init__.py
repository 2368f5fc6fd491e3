"""What calibration is made of: the ladder, the probes, and the fit of both at once."""
