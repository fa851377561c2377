"""`python -m foretoken`."""

from foretoken.cli.app import main

main()
