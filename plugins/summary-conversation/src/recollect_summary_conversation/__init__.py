"""Recollect's summary template that condenses a conversation."""
