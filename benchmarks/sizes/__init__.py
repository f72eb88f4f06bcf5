"""Whether work costs more the more there is of something: tasks that wait, tenants, workers, history."""
