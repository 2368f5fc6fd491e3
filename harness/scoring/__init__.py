"""How right the predictions are: a validation set drawn, predicted, sealed, measured, and set beside what needs no model."""
