"""Trainers: each algorithm is one flat file, with its networks and buffers beside it."""
