"""The application's state across sites: a site that starts late, or was cut off for long, takes that of another one."""
