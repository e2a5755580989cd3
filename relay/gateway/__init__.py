"""What the coordinator does towards other sites: links, what is sent and received over them, what is acknowledged."""
