"""The controller process: it reads the cluster through informers, runs the pure layers, and sends their calls."""
