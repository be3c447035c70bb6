#!/bin/bash
# The boundaries between folders and third-party headers: a table of who may include what (docs/architecture.md).
exec python3 "$(dirname "$0")/includes.py"
