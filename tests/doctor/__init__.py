"""Tests of the questions that `mainspring doctor` answers."""
