"""The language model that is trained: its recurrence, output layer, spelling table and export."""
