"""What every other package stands on: errors, range checks, atomic files, progress, devices, threads."""
