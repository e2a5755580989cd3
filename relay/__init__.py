"""Between sites: the coordinator of each site relays to those of the others; every multicast is delivered once everywhere."""
