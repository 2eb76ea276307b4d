"""`python -m hotlap` is `hotlap`."""

from hotlap.cli import main

main()
