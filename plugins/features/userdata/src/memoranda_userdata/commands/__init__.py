"""The commands that move and erase users' data. The module of a command is imported when the command runs."""
