"""Instructions on registers alone: arithmetic, conversions, special registers."""
