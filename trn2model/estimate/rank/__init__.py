"""What one rank computes: operators, their rates and times, the layers of its stage."""
