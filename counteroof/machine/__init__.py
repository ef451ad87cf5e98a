"""The machine: its caches and processors, and the ceilings measured on it."""
