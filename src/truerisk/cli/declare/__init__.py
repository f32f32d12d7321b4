"""The options of each command, in the module of its name; what a command does is imported when it runs."""
