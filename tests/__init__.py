"""Tests of trn2model: unit, properties, oracles, contracts, pages, browser, benchmarks."""
