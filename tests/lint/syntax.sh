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
    folder=$(mktemp -d)
    bad=$(for unit in $(files 'packaging/systemd/*.service'); do
        sed 's|@PREFIX@|/usr/local|g' "$unit" > "$folder/$(basename "$unit")"
        # The programs need not be installed here; everything else must be right.
        systemd-analyze verify --man=no "$folder/$(basename "$unit")" 2>&1 | grep -v 'is not executable'
    done)
    rm -rf "$folder"
else
    bad=$(grep -L '^ExecStart=@PREFIX@/bin/' $(files 'packaging/systemd/*.service'))
fi
tap "systemd units are well-formed" "$bad"
tap_end
