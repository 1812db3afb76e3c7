"""Read journals back: compare values, align runs, judge live replays and many runs."""
