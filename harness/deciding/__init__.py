"""What a sweep's measurements come to while it runs and after: drift, comparisons, certificate, and whether it is enough."""
