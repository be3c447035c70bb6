#!/bin/bash
# Every C file is laid out as .clang-format says; `make format` does it.
. "$(dirname "$0")/tap.inc"
if ! command -v clang-format-14 > /dev/null; then
    tap_skip "C files are formatted" "clang-format-14 is not installed"
    tap_end
fi
bad=""
for file in $(files '*.c' '*.h'); do
    clang-format-14 --dry-run -Werror "$file" 2> /dev/null || bad+="$file: run make format"$'\n'
done
tap "C files are formatted" "${bad%$'\n'}"
# Text files: no tabs where spaces rule, no trailing blanks, a newline at the end.
bad=$(files '*.c' '*.h' '*.py' '*.sh' '*.md' '*.proto' '*.go' '*.rs' '*.cpp' Makefile '*.mk' '*.service' '*.conf' |
    xargs grep -nE '[[:blank:]]+$' | cut -c1-120 | head -n 20)
tap "no line ends in blanks" "$bad"
bad=$(for file in $(files '*.c' '*.h' '*.py' '*.sh' '*.md' '*.proto' Makefile '*.mk'); do
    [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ] && echo "$file"
done)
tap "every file ends with a newline" "$bad"
tap_end
