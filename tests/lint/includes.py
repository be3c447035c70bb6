#!/usr/bin/env python3
"""Checks every #include against the rules below and prints TAP, one result per rule."""
import re
import subprocess
import sys

PROGRAMS = ("node-agent", "aggregator", "cli", "controller")
# common: layer 0 knows only libc; layer 1 stands on it.
LAYER0 = {"err", "log", "cleanup", "xalloc", "buf", "str", "table", "clock", "backoff"}
# Third-party header -> the file stems that may include it (anything under tests/ may).
CONFINED = {
    r"bpf/(libbpf|bpf|btf)\.h": {"sampler", "targets"},
    r"(libelf|gelf|elfutils/.*)\.h": {"elf_file", "image", "symbols", "unwind_table"},
    r"curl/.*": {"http"},
    r"microhttpd\.h": {"http_server"},
    r"pcre2\.h": {"labels"},
    r"nng/.*": {"link", "link_close"},
    r"sqlite3\.h": {"store"},
    r"protobuf-c/.*|.*\.pb-c\.h": {"wire*", "api_*"},
    r"(libiberty/)?demangle\.h": {"demangle"},
    r"zstd\.h": {"wire*"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def sources():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.c", "*.h"],
                            stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout.split()
    for path in sorted(set(listed)):
        try:
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    match = INCLUDE.match(line)
                    if match:
                        yield path, number, match.group(1) == '"', match.group(2)
        except FileNotFoundError:
            continue


def folder_of(path):
    return path.split("/", 1)[0] if "/" in path else ""


def stem_of(path):
    return re.sub(r"(\.bpf)?\.[ch]$", "", path.rsplit("/", 1)[-1])


def allowed(stem, stems):
    return any(stem == s or (s.endswith("*") and stem.startswith(s[:-1])) for s in stems)


def from_root(path, quoted, header):
    """Own headers are written from the root (workloads stand alone beside theirs)."""
    return not quoted or "/" in header or folder_of(path) == "tests"


def common_knows_no_program(path, _, header):
    return folder_of(path) != "common" or folder_of(header) not in PROGRAMS + ("bpf",)


def programs_stay_apart(path, _, header):
    mine, other = folder_of(path), folder_of(header)
    return mine not in PROGRAMS or other not in PROGRAMS or mine == other


def bpf_knows_only_bpf(path, quoted, header):
    if folder_of(path) != "bpf":
        return True
    return folder_of(header) == "bpf" if quoted else header.startswith(("linux/", "bpf/", "std", "asm/"))


def only_the_agent_knows_the_abi(path, _, header):
    return not re.match(r"bpf/.*\.h$", header) or header.startswith(("bpf/bpf", "bpf/libbpf", "bpf/btf")) or \
        folder_of(path) in ("bpf", "node-agent", "tests")


def layer0_knows_no_layer1(path, quoted, header):
    if folder_of(path) != "common" or stem_of(path) not in LAYER0:
        return True
    return stem_of(header) in LAYER0 if quoted else "/" not in header or header.startswith("sys/")


def nobody_includes_the_top(path, _, header):
    top = re.match(r"(%s)/(main|agent|shard|controller)\.h$" % "|".join(PROGRAMS), header)
    own = top and path.rsplit(".", 1)[0] == header.rsplit(".", 1)[0]
    return not top or own or folder_of(path) == "tests" or re.search(r"/(main|cmd_\w+)\.[ch]$", path) is not None


def third_party_is_confined(path, _, header):
    if folder_of(path) == "tests" or (folder_of(path) == "bpf" and header.startswith("bpf/")):
        return True
    return all(allowed(stem_of(path), stems) for pattern, stems in CONFINED.items() if re.fullmatch(pattern, header))


RULES = [
    ("own includes are written from the root", from_root),
    ("common includes no program and no bpf", common_knows_no_program),
    ("programs do not include each other", programs_stay_apart),
    ("bpf includes only bpf", bpf_knows_only_bpf),
    ("only node-agent and tests include bpf headers", only_the_agent_knows_the_abi),
    ("layer 0 of common knows only libc", layer0_knows_no_layer1),
    ("nobody includes a program's top header", nobody_includes_the_top),
    ("third-party headers stay in their files", third_party_is_confined),
]


def main():
    includes = list(sources())
    print("1..%d" % len(RULES))
    status = 0
    for number, (name, rule) in enumerate(RULES, 1):
        bad = ["%s:%d includes %s" % (p, n, h) for p, n, q, h in includes
               if not (rule(p, q, h))]
        print("%sok %d - %s" % ("not " if bad else "", number, name))
        for line in bad:
            status = 1
            print("# " + line)
    return status


if __name__ == "__main__":
    sys.exit(main())
