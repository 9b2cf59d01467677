"""The command `lmc-gpu`."""

import sys


def main():
    """Runs the command line and ends the process as it says."""
    try:
        from ._native import command
    except ImportError:
        sys.exit("this build of the package has no command: build it with the feature command")
    sys.exit(command(sys.argv))
