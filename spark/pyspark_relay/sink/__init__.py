"""The Spark sink `relay`: publishes rows as messages of a running site, over its nodes' HTTP."""
