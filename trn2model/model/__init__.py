"""The one place where formulas meet specs: from a scenario to an estimate."""
