"""The protocols of a site's stack, one package or file each, as pure state machines."""
