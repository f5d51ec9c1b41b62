"""What the author of a backend builds on: terms and passages of text, ranked search, rows and SQL statements.

Import what you need from :mod:`memoranda_backend.text`, :mod:`memoranda_backend.ranking` or
:mod:`memoranda_backend.sql`. None of them imports another's dependencies before they are used.
"""
