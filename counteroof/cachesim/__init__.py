"""Cache model: geometry and policies in, traffic per level and array out."""
