"""`python -m foretoken.worker`: started by the supervisor, never by hand."""

from foretoken.worker.service import main

if __name__ == "__main__":
    main()
