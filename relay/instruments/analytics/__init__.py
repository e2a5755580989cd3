"""Journals as tables: a Spark data source, transforms that prove the promises and measure, and the jobs made of them.

Needs the extra `analytics` and Java 17 or newer. Nothing here is imported when neither `relay audit` nor a Spark session
of one's own asks for it.
"""
