"""What is on disk, typed. JSON exists only at this edge."""
