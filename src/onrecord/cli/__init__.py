"""Command line: parse options, call the layers below, print values."""
