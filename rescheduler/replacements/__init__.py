"""What comes back for a pod that is evicted: which controller creates it, from which template, of which size, and when. Pure."""
