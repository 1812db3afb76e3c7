"""HTTP requests as effects, for any library that sends them."""
