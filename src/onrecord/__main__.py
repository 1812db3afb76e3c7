"""Run the command line: `python -m onrecord`."""

from onrecord.cli.entry import run

if __name__ == "__main__":
    run()
