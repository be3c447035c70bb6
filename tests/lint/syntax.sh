#!/bin/bash
# Scripts parse, start with the interpreter they need and may be executed; unit files are well-formed.
. "$(dirname "$0")/tap.inc"
bad=$(for file in $(files '*.sh' .ci/run); do bash -n "$file" 2>&1; done)
tap "shell scripts parse" "$bad"
bad=$(for file in $(files '*.py'); do
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1])' "$file" 2>&1 | tail -n 1
done)
tap "Python files parse" "$bad"
bad=$(for file in $(files '*.sh' .ci/run); do
    [ -x "$file" ] && [ "$(head -c 2 "$file")" = '#!' ] || echo "$file: not executable or without #!"
done)
tap "scripts can be executed" "$bad"
if command -v systemd-analyze > /dev/null; then
    bad=$(for unit in $(files 'packaging/systemd/*.service'); do
        # Programs and directories of an installed system may be missing here; everything else must be right.
        systemd-analyze verify --man=no "$unit" 2>&1 | grep "$(basename "$unit")" | grep -vE 'is not executable|not found'
    done)
    tap "systemd units are well-formed" "$bad"
else
    tap "systemd units are well-formed" "$(for unit in $(files 'packaging/systemd/*.service'); do
        grep -q '^ExecStart=/' "$unit" || echo "$unit: no ExecStart"
    done)"
fi
tap_end
