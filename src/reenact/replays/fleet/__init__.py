"""Many runs judged at once: which of them, what was found, and how a build server is told. Nothing here runs a run."""
