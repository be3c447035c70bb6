#!/bin/bash
# House rule 12: functions and habits that are not allowed. A line that breaks a rule for a reason carries
# "allowed:" and the reason in a comment.
. "$(dirname "$0")/tap.inc"
exec python3 tests/lint/banned.py
