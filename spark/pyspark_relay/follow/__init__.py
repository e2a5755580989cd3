"""`relay audit --follow`: the audit of journals that grow, in bounded memory."""
