"""Operations commands: doctor, smoke, simulate, workers, alerts, durations."""
