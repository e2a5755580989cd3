"""The protocols of a site's stack, one file each, as pure state machines."""
