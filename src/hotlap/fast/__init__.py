"""Drop-ins for the slow habits of training scripts, to import or to copy into a project.

Each file stands alone: it imports numpy and torch and nothing else of hotlap, runs on Python 3.9 and later, torch 1.13 and
later, numpy 1 and 2, and says what it replaces, with which shapes, and how equality is proven. `hotlap investigate --apply`
puts the file that a patch needs beside the script, as `hotlap_NAME.py`. docs/fast.md lists them with what they gain.
"""
