"""Three plugins for berth, one in each of the ways in which they can be written."""
