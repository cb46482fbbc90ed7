"""Durations as readable text."""


def duration(seconds: float) -> str:
    """Seconds in the unit that fits: 48 s, 3.7 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 90 * 60 else f"{seconds / 3600:,.1f} h"
