"""A mutation run: which small changes of the most dangerous modules no test notices."""
