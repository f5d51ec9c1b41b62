"""``python -m recollect`` is the ``recollect`` command."""

from recollect.cli import main

if __name__ == "__main__":
    main()
