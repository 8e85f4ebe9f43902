"""Commands, one module each. Data on stdout, messages on stderr; exit codes as documented."""
