"""Clusters as companies have them, with every kind of object, rule and state: are plans of them true, executable and at rest."""
