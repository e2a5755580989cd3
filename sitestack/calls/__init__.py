"""Group calls: one question to many members, and their answers.

Pure: `sitestack/channel/` sends, waits and applies the time limit.
"""
