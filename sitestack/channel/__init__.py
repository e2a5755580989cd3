"""The trio shell of one member: the channel that an application opens, its driver, and the end it receives from."""
