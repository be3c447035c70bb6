#!/usr/bin/env python3
"""Looks for banned calls and habits in the C code, comments and strings left out; prints TAP, one result per rule."""
import re
import subprocess
import sys

RULES = [
    ("no banned string functions", r"\b(strcpy|strcat|sprintf|vsprintf|strncpy|strncat|strtok|gets|stpcpy)\s*\("),
    ("no atoi and its kin", r"\b(atoi|atol|atoll|atof)\s*\("),
    ("no alloca", r"\balloca\s*\("),
    ("no realloc over the only pointer", r"\b(\w+(?:(?:->|\.)\w+)*)\s*=\s*realloc\s*\(\s*\1\s*,"),
    ("no function-pointer casts", r"\(\s*(?:void|int|\w+_t)\s*\(\s*\*\s*\)\s*\([^)]*\)\s*\)\s*[\w&(]"),
    ("no typedef of structs", r"^\s*typedef\s+struct\b"),
    ("no stub left behind", None),
]
STUB = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
ALLOWED = re.compile(r"allowed: \w+")


def without_comments_and_strings(text):
    """Same line numbers, comments and literals blanked."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def ifdef_inside_functions(code):
    """A preprocessor condition after a function's opening brace in column 0 and before its closing one."""
    inside = False
    for number, line in enumerate(code.splitlines(), 1):
        if line.startswith("{"):
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside and re.match(r"\s*#\s*(if|ifdef|ifndef|else|elif)\b", line):
            yield number


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.c", "*.h"],
                            stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout.split()
    found = {name: [] for name, _ in RULES}
    found["no #ifdef inside a function"] = []
    for path in sorted(set(listed)):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        code = without_comments_and_strings(text)
        lines, code_lines = text.splitlines(), code.splitlines()
        # Workloads stand on libc alone and are no part of the product.
        product = not path.startswith("tests/workloads/")
        for number, line in enumerate(code_lines, 1):
            for name, pattern in RULES:
                hit = re.search(pattern, line) if pattern else STUB.search(lines[number - 1])
                if hit and (product or pattern is None) and not ALLOWED.search(lines[number - 1]):
                    found[name].append("%s:%d: %s" % (path, number, lines[number - 1].strip()[:100]))
        for number in ifdef_inside_functions(code):
            if product and not ALLOWED.search(lines[number - 1]):
                found["no #ifdef inside a function"].append("%s:%d" % (path, number))
    print("1..%d" % len(found))
    for number, (name, bad) in enumerate(found.items(), 1):
        print("%sok %d - %s" % ("not " if bad else "", number, name))
        for line in bad:
            print("# " + line)
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
