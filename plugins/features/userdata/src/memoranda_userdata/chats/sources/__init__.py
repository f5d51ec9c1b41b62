"""What ``memoranda import`` reads besides exports of its own and chat files: exports and stores of other programs."""

from __future__ import annotations
