"""The Spark sink `relay`: rows become messages of a running site, through the HTTP of its nodes."""
