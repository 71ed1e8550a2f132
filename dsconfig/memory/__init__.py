"""What a rank and its host hold in training, at rest and at the peaks, computed from config and model."""
