"""Tests of the tools that the project is made with."""
