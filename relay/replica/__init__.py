"""What every member of a site knows about relaying, fed by the site's stream alone, so that all know the same at the same point."""
