"""bijectors."""
