"""A child process asks the model."""

import subprocess
import sys
from pathlib import Path

from kit import say

child = Path(__file__).with_name("child_agent.py")
done = subprocess.run([sys.executable, str(child)], capture_output=True, text=True, check=True)
say(done.stdout.strip())
