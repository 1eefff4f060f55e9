"""What a lane keeps: keys, windows, watermarks, retention, checkpoints, the store."""
