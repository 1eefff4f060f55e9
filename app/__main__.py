"""`python -m app`: the command line, for processes that start workers of their own kind."""

from app.cli import main

if __name__ == "__main__":
    main()
