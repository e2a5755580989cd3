"""The nouns, as pure values: addresses, messages, views, frames, events, errors."""
