"""The rules of a profile: their text, their meaning, and how they judge a reply."""
