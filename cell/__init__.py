"""Eval cells: one isolated world per rollout, its ways out, its gate, and its verdict.

`cell` runs worlds and knows nothing of screens; see docs/architecture.md.
"""

__version__ = "0.1.0"
