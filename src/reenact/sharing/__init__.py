"""A run, or two that are compared, as one HTML file that shows and verifies itself.

The recording is in the file as `reenact export` writes it (docs/sharing.md). Everything that is shown is read from
there by the script of the page, which first hashes all of it again. Whoever does not trust that script, which came with
the file, has `reenact verify FILE` and `reenact import FILE`, which read the same recording with code of their own.
"""
