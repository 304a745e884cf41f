"""Facts as frozen values: machines, models, number formats, profiles, plans and scenarios."""
