#!/bin/bash
# The runner's own test: what it must count as passed, failed and skipped.
exec python3 "$(dirname "$0")/runner_test.py"
