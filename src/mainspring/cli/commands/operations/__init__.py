"""Commands that look after an installation: doctor, smoke, simulate, workers, alerts, durations."""
