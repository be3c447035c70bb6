# fleetprof: one Makefile, no recursion. `make help` lists the targets.
#   MODE=rel (default) | san-address-undefined | san-thread | fuzz     V=1 shows the commands
MODE ?= rel
OUT := out/$(MODE)
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = @$(if $(filter 1,$(V)),:,printf '  %-7s %s\n' $(1) $(2))

PREFIX ?= /usr/local
DESTDIR ?=
CC := gcc
CLANG ?= clang-14
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/bin/bpftool) bpftool)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wundef \
        -Wpointer-arith -Wwrite-strings -Werror
CPPFLAGS := -I. -I$(OUT)/gen -D_GNU_SOURCE
CFLAGS := -std=c11 -O2 -g -fno-omit-frame-pointer -fstack-protector-strong $(WARN)
LDFLAGS := -Wl,-z,relro,-z,now
ifeq ($(MODE),san-address-undefined)
CFLAGS := $(CFLAGS) -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS := -fsanitize=address,undefined
else ifeq ($(MODE),san-thread)
CFLAGS := $(CFLAGS) -O1 -fsanitize=thread
LDFLAGS := -fsanitize=thread
else ifeq ($(MODE),fuzz)
CC := $(CLANG)
CFLAGS := $(CFLAGS) -O1 -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined
LDFLAGS := -fsanitize=address,undefined
else ifeq ($(MODE),clang)
CC := $(CLANG)
else
CPPFLAGS += -D_FORTIFY_SOURCE=2
endif

PROGRAMS := node-agent aggregator cli
# What each program links with; the archive group comes first.
LIBS_common := -lnng -luv -lzstd -lxxhash -lprotobuf-c -ljansson -lpthread
LIBS_node-agent := -lbpf -lelf -lmicrohttpd $(LIBS_common)
LIBS_aggregator := -lpcre2-8 -lmicrohttpd -liberty -lz -lm $(LIBS_common)
LIBS_cli := -lcurl -lm $(LIBS_common)
LIBS_tests := -lcmocka -lpcre2-8 -lbpf -lelf -lmicrohttpd -liberty -lcurl -lz -lm $(LIBS_common)

PROTOS := $(wildcard common/wire/*.proto aggregator/*.proto)
PB_C := $(patsubst %.proto,$(OUT)/gen/%.pb-c.c,$(PROTOS))
PB_H := $(PB_C:.c=.h)
BPF_SRC := $(wildcard bpf/*.bpf.c)
BENCH_BPF_SRC := $(wildcard tests/bench/*.bpf.c)
SKELS := $(patsubst %.bpf.c,$(OUT)/gen/%.skel.h,$(BPF_SRC) $(BENCH_BPF_SRC))

objs = $(patsubst %.c,$(OUT)/obj/%.o,$(filter-out %/main.c,$(wildcard $(1)/*.c)))
PB_OBJS_common := $(patsubst $(OUT)/gen/%.c,$(OUT)/obj/gen/%.o,$(filter $(OUT)/gen/common/%,$(PB_C)))
PB_OBJS_aggregator := $(patsubst $(OUT)/gen/%.c,$(OUT)/obj/gen/%.o,$(filter $(OUT)/gen/aggregator/%,$(PB_C)))

BIN_node-agent := $(OUT)/bin/node-agent
BIN_aggregator := $(OUT)/bin/aggregator
BIN_cli := $(OUT)/bin/fleetprof
BINS := $(foreach p,$(PROGRAMS),$(BIN_$(p)))

.PHONY: all check check-bpf check-e2e check-unit check-san fuzz bench lint format ci demo run deps deps-test install clean help workloads tests
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BINS)

# ---- generated code -------------------------------------------------------------------------
# Written at each start of make, but only when it differs: then the few files that include it are built again.
VERSION_H := $(OUT)/gen/common/version.h
$(shell mkdir -p $(OUT)/gen/common; \
  printf '\043define FLEETPROF_VERSION "%s"\n' '$(VERSION)' | cmp -s - $(VERSION_H) || \
  printf '\043define FLEETPROF_VERSION "%s"\n' '$(VERSION)' > $(VERSION_H))

$(OUT)/gen/%.pb-c.c $(OUT)/gen/%.pb-c.h &: %.proto
	$(call say,PROTO,$<)
	@mkdir -p $(dir $(OUT)/gen/$*)
	$(Q)protoc-c --c_out=$(OUT)/gen $<

$(OUT)/gen/%.bpf.o: %.bpf.c $(wildcard bpf/*.h)
	$(call say,BPF,$<)
	@mkdir -p $(dir $@)
	$(Q)$(CLANG) -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -O2 -g -Wall -Wextra -Werror -I. \
	  -idirafter /usr/include/$(MULTIARCH) -c $< -o $@

$(OUT)/gen/%.skel.h: $(OUT)/gen/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(notdir $*)_bpf > $@

MULTIARCH := $(shell gcc -print-multiarch 2>/dev/null)
BPF_ARCH := $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m)))

# ---- objects, archives, programs ------------------------------------------------------------
$(OUT)/obj/%.o: %.c | $(PB_H) $(SKELS)
	$(call say,CC,$<)
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(OUT)/obj/gen/%.pb-c.o: $(OUT)/gen/%.pb-c.c
	$(call say,CC,$<)
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

define archive
$(OUT)/lib/$(1).a: $(call objs,$(1)) $(PB_OBJS_$(1))
	$(call say,AR,$$@)
	@mkdir -p $$(dir $$@)
	@rm -f $$@
	$(Q)ar rcs $$@ $$^
endef
$(foreach p,common $(PROGRAMS),$(eval $(call archive,$(p))))
ARCHIVES := $(foreach p,$(PROGRAMS) common,$(OUT)/lib/$(p).a)

define program
$(BIN_$(1)): $(OUT)/obj/$(1)/main.o $(OUT)/lib/$(1).a $(OUT)/lib/common.a
	$(call say,LINK,$$@)
	@mkdir -p $$(dir $$@)
	$(Q)$$(CC) $$(LDFLAGS) $$^ $(LIBS_$(1)) -o $$@
endef
$(foreach p,$(PROGRAMS),$(eval $(call program,$(p))))

# ---- tests ----------------------------------------------------------------------------------
TEST_SRC := $(wildcard tests/unit/test_*.c tests/bpf/test_*.c)
TEST_BINS := $(patsubst tests/%.c,$(OUT)/tests/%,$(TEST_SRC))
UNIT_BINS := $(filter $(OUT)/tests/unit/%,$(TEST_BINS))
BPF_BINS := $(filter $(OUT)/tests/bpf/%,$(TEST_BINS))
BENCH_BINS := $(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/bench/bench_*.c))
BENCH_OBJS := $(patsubst %.c,$(OUT)/obj/%.o,$(filter-out tests/bench/bench_% $(BENCH_BPF_SRC),$(wildcard tests/bench/*.c)))
tests: $(TEST_BINS)

$(BENCH_BINS): $(BENCH_OBJS)
$(TEST_BINS) $(BENCH_BINS): $(OUT)/tests/%: $(OUT)/obj/tests/%.o $(ARCHIVES)
	$(call say,LINK,$@)
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(LIBS_tests) -o $@

include tests/workloads/workloads.mk

RUN := python3 tests/run.py
check-unit: $(UNIT_BINS)
	$(Q)$(RUN) $(UNIT_BINS)
check-bpf: all workloads $(BPF_BINS)
	$(Q)$(RUN) $(BPF_BINS)
check-e2e: all workloads
	$(Q)$(RUN) $(sort $(wildcard tests/e2e/test_*.py))
check-san:
	$(Q)$(MAKE) --no-print-directory MODE=san-address-undefined check-unit
	$(Q)$(MAKE) --no-print-directory MODE=san-thread check-unit

# Every test of the project, one closing line. FUZZ_SECONDS is short here and 60 in .ci/run.
JOBS := -j$(shell nproc)
check: FUZZ_SECONDS ?= 10
check: deps-test
	$(Q)$(MAKE) --no-print-directory $(JOBS) all workloads tests
	$(Q)$(MAKE) --no-print-directory $(JOBS) MODE=san-address-undefined tests-unit-build
	$(Q)$(MAKE) --no-print-directory $(JOBS) MODE=san-thread tests-unit-build
	$(Q)$(MAKE) --no-print-directory $(JOBS) MODE=fuzz fuzz-build
	$(Q)$(MAKE) --no-print-directory check-everything FUZZ_SECONDS=$(FUZZ_SECONDS)

.PHONY: tests-unit-build check-everything
tests-unit-build: $(UNIT_BINS)
check-everything:
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) $(RUN) $(sort $(wildcard tests/lint/*.sh)) $(UNIT_BINS) \
	  $(subst out/rel/,out/san-address-undefined/,$(UNIT_BINS)) $(subst out/rel/,out/san-thread/,$(UNIT_BINS)) \
	  $(BPF_BINS) $(sort $(wildcard tests/e2e/test_*.py)) $(if $(FUZZ_BINS),tests/fuzz/run.sh)

# ---- fuzzing --------------------------------------------------------------------------------
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BINS := $(patsubst tests/fuzz/%.c,out/fuzz/fuzz/%,$(FUZZ_SRC))
ifeq ($(MODE),fuzz)
$(FUZZ_BINS): out/fuzz/fuzz/%: out/fuzz/obj/tests/fuzz/%.o $(ARCHIVES)
	$(call say,LINK,$@)
	@mkdir -p $(dir $@)
	$(Q)$(CC) -fsanitize=address,undefined,fuzzer $< -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(LIBS_tests) -o $@
.PHONY: fuzz-build
fuzz-build: $(FUZZ_BINS)
endif
fuzz: FUZZ_SECONDS ?= 60
fuzz: deps-test
	$(Q)$(MAKE) --no-print-directory $(JOBS) MODE=fuzz fuzz-build
	$(Q)tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_BINS)

# ---- the rest -------------------------------------------------------------------------------
bench: all workloads $(BENCH_BINS)
	$(Q)tests/bench/run.py $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

C_FILES := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
format:
	$(Q)clang-format-14 -i $(C_FILES)
lint: deps-test
	$(Q)$(MAKE) --no-print-directory $(JOBS) all
	$(Q)$(RUN) $(sort $(wildcard tests/lint/*.sh))

ci:
	$(Q).ci/run

demo: deps
	$(Q)$(MAKE) --no-print-directory $(JOBS) all demo-workloads
	$(Q)python3 tests/workloads/demo.py --workloads $(if $(SECONDS_SET),--seconds $(SECONDS_SET))
run: deps
	$(Q)$(MAKE) --no-print-directory $(JOBS) all
	$(Q)python3 tests/workloads/demo.py $(if $(SECONDS_SET),--seconds $(SECONDS_SET))
SECONDS_SET := $(if $(filter command line,$(origin SECONDS)),$(SECONDS))

deps:
	$(Q)tests/deps.sh build
deps-test:
	$(Q)tests/deps.sh test

# Units and settings of an existing installation are kept: a changed example goes beside them as NAME.example.
UNIT_DIR := $(PREFIX)/lib/systemd/system
SETTINGS := node-agent aggregator
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(UNIT_DIR) $(DESTDIR)/etc/fleetprof $(DESTDIR)$(PREFIX)/share/doc/fleetprof
	install -m 0755 $(BINS) $(DESTDIR)$(PREFIX)/bin/
	$(Q)for name in $(SETTINGS); do \
	  sed 's|@PREFIX@|$(PREFIX)|g' packaging/systemd/fleetprof-$$name.service > $(DESTDIR)$(UNIT_DIR)/fleetprof-$$name.service && \
	  chmod 0644 $(DESTDIR)$(UNIT_DIR)/fleetprof-$$name.service && \
	  target=$(DESTDIR)/etc/fleetprof/$$name.conf && \
	  if [ -e $$target ]; then target=$$target.example; fi && \
	  install -m 0644 packaging/$$name.conf $$target && echo "installed $$target" || exit 1; done
	install -m 0644 README.md LICENSE $(wildcard docs/*.md) $(DESTDIR)$(PREFIX)/share/doc/fleetprof/

clean:
	rm -rf out

help:
	@echo "make demo [SECONDS=n]  build, start three shards, one agent and workloads, show the live fleet top"
	@echo "make run  [SECONDS=n]  the same without the workloads; PORT_BASE=n moves the ports of both (4040)"
	@echo "make check             every test (root); check-unit, check-bpf, check-e2e, check-san are parts of it"
	@echo "make fuzz [FUZZ_SECONDS=60]   every fuzzer for that long"
	@echo "make bench [QUICK=1] [ONLY=name,...]   the benchmarks, a table of ratios measured side by side"
	@echo "make lint | format | install [DESTDIR= PREFIX=] | deps | clean"

-include $(shell find out -name '*.d' 2>/dev/null)
