"""Limits across tasks: token buckets, concurrency groups, limit shares, rate grants, failure budgets."""
