# The real programs that tests, demo and benchmarks run. Each source says in its head what it does and which truth it
# prints. Products: $(OUT)/workloads/. Frame pointers are kept; what a test needs otherwise is said at its rule.
# Process names are cut at 15 characters by the kernel: so are the names here.
W := $(OUT)/workloads
WS := tests/workloads
WCFLAGS := -std=gnu11 -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -Wall -Wextra -Wshadow -Werror
# Debian's Go 1.19 will do. sudo's PATH may not lead to a Go installed by hand.
GO ?= $(firstword $(wildcard $(addsuffix /go,$(subst :, ,$(PATH)) /usr/local/go/bin /usr/lib/go/bin)))
RUSTC ?= $(firstword $(wildcard $(addsuffix /rustc,$(subst :, ,$(PATH)) /root/.cargo/bin /usr/bin)))
# No network, no module, no version control: one file in, one program out.
GO_ENV := GO111MODULE=off GOFLAGS= GOTOOLCHAIN=local GOCACHE=$(abspath $(OUT))/go-cache CGO_ENABLED=0

W_C := spin burst readzero sleeper rename dl deep short pidagain
W_LAYOUTS := lay-pie lay-nopie lay-static lay-static-pie lay-lld lay-twoseg lay-strip lay-other
W_GO := keycheck keycheck-strip keycheck-pie
DEMO_WORKLOADS := $(addprefix $(W)/,keycheck spin)
WORKLOADS := $(addprefix $(W)/,$(W_C) $(W_LAYOUTS) $(W_GO) shortjob liba.so libb.so tmpl hidden \
  $(if $(shell command -v musl-gcc),lay-musl) $(if $(RUSTC),rusty))

.PHONY: workloads demo-workloads
workloads: $(WORKLOADS)
demo-workloads: $(DEMO_WORKLOADS)

define workload
@printf '  %-7s %s\n' WORK $@
@mkdir -p $(W)
$(Q)
endef

$(addprefix $(W)/,$(W_C)): $(W)/%: $(WS)/%.c $(WS)/workload.h $(WS)/workloads.mk
	$(workload)gcc $(WCFLAGS) $< -o $@ -pthread -ldl

$(W)/shortjob: $(W)/short
	$(Q)cp $< $@

$(W)/liba.so $(W)/libb.so: $(W)/lib%.so: $(WS)/dl_lib.c $(WS)/workload.h
	$(workload)gcc $(WCFLAGS) -shared -fPIC -DBURN=burn_$* $< -o $@

# One program, many layouts.
LAYOUT_FLAGS_lay-pie := -fPIE -pie
LAYOUT_FLAGS_lay-nopie := -fno-pie -no-pie
LAYOUT_FLAGS_lay-static := -fno-pie -no-pie -static
LAYOUT_FLAGS_lay-static-pie := -fPIE -static-pie
# lld by default: file offsets and addresses differ from segment to segment.
LAYOUT_FLAGS_lay-lld := -fPIE -pie -fuse-ld=lld
# The hot function lies in an executable segment of its own, far away.
LAYOUT_FLAGS_lay-twoseg := -fno-pie -no-pie -DHOT_SECTION='".hot2"' -Wl,--section-start=.hot2=0x10000000
LAYOUT_FLAGS_lay-strip := -fPIE -pie -s
LAYOUT_FLAGS_lay-other := -fPIE -pie -DOTHER
$(addprefix $(W)/,$(W_LAYOUTS)): $(W)/%: $(WS)/layout.c $(WS)/workload.h $(WS)/workloads.mk
	$(workload)gcc $(WCFLAGS) $(LAYOUT_FLAGS_$*) $< -o $@
$(W)/lay-musl: $(WS)/layout.c $(WS)/workload.h
	$(workload)musl-gcc $(WCFLAGS) -static $< -o $@
$(W)/hidden: $(WS)/hidden.c $(WS)/workload.h
	$(workload)gcc $(WCFLAGS) -fvisibility=hidden -fPIE -pie -rdynamic -s $< -o $@

$(W)/tmpl: $(WS)/tmpl.cpp $(WS)/workload.h
	$(workload)g++ -O2 -g -fno-omit-frame-pointer -Wall -Wextra $< -o $@
$(W)/rusty: $(WS)/rusty.rs
	$(workload)$(RUSTC) --edition 2021 -C opt-level=2 -C force-frame-pointers=yes -o $@ $<

GO_FLAGS_keycheck :=
GO_FLAGS_keycheck-strip := -ldflags '-s -w'
GO_FLAGS_keycheck-pie := -buildmode=pie
$(addprefix $(W)/,$(W_GO)): $(W)/%: $(WS)/keycheck.go
	$(workload)$(if $(GO),,$(error Go is not installed; tests/deps.sh build does that))$(GO_ENV) $(GO) build $(GO_FLAGS_$*) -o $@ $<
