"""What is measured: a script or a system, and variants of it; words of the command line become targets."""
