"""The training engine, shared by the estimators and the lab: batches, loss, seeds, and the training loop."""
