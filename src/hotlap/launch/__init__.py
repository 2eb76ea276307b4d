"""One way to start a target in a child process: scratch working copy, pipes, signals; one child program with modes."""
