"""The verbs of the command line: each parses its flags, calls one function and renders what comes back."""
