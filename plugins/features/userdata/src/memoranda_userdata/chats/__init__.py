"""Conversations and memories from the files of other programs: chats, exports, databases."""
