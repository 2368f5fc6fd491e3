"""What a sweep's page, its text and its figures are made of: curves, tables, advice, and how they look."""
