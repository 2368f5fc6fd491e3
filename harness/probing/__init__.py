"""What a run of `python -m harness probe` is made of: planned, launched, judged, written and asked for."""
