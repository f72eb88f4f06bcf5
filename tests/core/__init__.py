"""The rules, one by one: every pair of every table, and properties of what is computed."""
