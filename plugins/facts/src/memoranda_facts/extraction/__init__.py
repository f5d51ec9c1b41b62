"""Where facts come from: extractors propose candidates from what was said, and :class:`Facts` decides."""
