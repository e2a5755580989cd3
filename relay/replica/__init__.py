"""What every member of a site knows about relaying. Fed by the stream alone, so all know the same at the same point."""
