"""Tests of map-reduce, with real files, programs and servers."""
