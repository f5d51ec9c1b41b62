"""What the commands of memoranda and of its plugins share: options, tables, exit codes, opening a store, Ctrl-C."""
