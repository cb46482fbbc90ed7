"""How treebanks write brackets and quotes, and what plain text writes in their place."""

from __future__ import annotations

# Word vectors and a biLM trained on plain text have never met the escapes.
PLAIN = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
