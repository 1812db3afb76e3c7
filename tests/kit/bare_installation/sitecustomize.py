"""Hide optional packages from the programs of tests: see `kit.programs.hide_optional_packages`."""

import sys

for name in ("genai_prices", "pygments", "rich", "trio"):
    sys.modules[name] = None
