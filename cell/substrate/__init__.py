"""Where a cell's root file system comes from: an image, or this machine's own programs."""
