"""Work that real libraries do, written so that it runs natively or under the engine.

Each module has the works of one library; ``work.py`` says what a work is, ``measure.py`` runs one both ways.
"""
