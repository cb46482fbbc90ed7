"""Language model for training: recurrence, output layer, spelling table and export."""
