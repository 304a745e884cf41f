"""Performance model of AWS Trainium2 chips, Trn2 instances and Trn2 UltraServers."""
