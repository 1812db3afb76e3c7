"""A run, or two that are compared, as one HTML file that shows and verifies itself.

The file holds the recording as `onrecord export` writes it (docs/guides/sharing.md). The page's script hashes the
recording again, then shows it. That script came with the file: `onrecord verify FILE` and `onrecord import FILE` read
the same recording with code of their own.
"""
