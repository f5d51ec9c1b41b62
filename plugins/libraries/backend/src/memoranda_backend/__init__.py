"""What the author of a backend builds on: terms and passages of text, ranked search, SQL, batches of writes, windows.

Import what you need from :mod:`memoranda_backend.text`, :mod:`memoranda_backend.ranking`, :mod:`memoranda_backend.sql`,
:mod:`memoranda_backend.batching` or :mod:`memoranda_backend.windows`. None of them imports another's dependencies
before they are used.
"""
