#!/bin/bash
# House rule 1: a file stops at 800 lines, a function at 80, a header at 250 (aim 150).
. "$(dirname "$0")/tap.inc"
sources=$(files '*.c' '*.h')
long=$(for file in $sources $(files '*.py' '*.sh' Makefile '*.mk'); do
    lines=$(wc -l < "$file")
    [ "$lines" -le 800 ] || echo "$file: $lines lines"
done)
tap "no file is longer than 800 lines" "$long"
# Functions begin with a brace in column 0 and end with one (the tree's .clang-format guarantees it).
long=$(awk 'FNR == 1 { start = 0 }
    /^\{/ { start = FNR }
    /^\}/ { if (start && FNR - start - 1 > 80) print FILENAME ":" start ": a function of " FNR - start - 1 " lines"; start = 0 }
' $sources)
tap "no function is longer than 80 lines" "$long"
long=$(for file in $(files '*.h'); do
    lines=$(wc -l < "$file")
    [ "$lines" -le 250 ] || echo "$file: $lines lines"
done)
tap "no header is longer than 250 lines" "$long"
tap_end
