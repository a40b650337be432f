"""`python -m acidctl`."""

from __future__ import annotations

from acidctl.cli.main import main

if __name__ == "__main__":
    main()
