"""Tests of workers: state machine, spool, logs, isolation and executors."""
