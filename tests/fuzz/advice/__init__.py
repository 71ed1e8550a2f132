"""What advice says is done, mechanically: a help is read by its sentence forms, and carried out on the data.

`sentences` reads a help, `places` finds the keys it speaks of, `values` makes what it asks for, `follow` does
it and judges what comes of it; `python -m tests.fuzz.advice --cases 20000` does so for a great many findings.
"""
