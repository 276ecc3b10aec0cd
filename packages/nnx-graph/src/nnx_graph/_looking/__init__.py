"""Looking at graphs and at their activity: summaries, text forms and pictures."""
