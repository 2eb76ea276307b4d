"""What everything stands on: stages, counts, clock, statistics, units, machine, C compiler, errors. Imports no other layer."""
