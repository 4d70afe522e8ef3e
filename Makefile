# Everything a contributor runs. `make help` lists it.
SHELL := /bin/bash
CARGO ?= cargo
SIDECARS := -p csi-provisioner -p csi-attacher -p csi-resizer -p csi-node-driver-registrar -p livenessprobe
PROGRAMS := $(SIDECARS) -p local-driver -p e2e
STATIC := $(shell uname -m)-unknown-linux-musl
STATIC_GLIBC := $(shell uname -m)-unknown-linux-gnu

.PHONY: help demo test test-fast test-cluster lint fmt release bench-attach bench-capacity bench-handover bench-idle bench-memory function-order programs cluster-programs

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

demo: programs ## A claim becomes a volume on a real control plane, and goes away again
	@$(CARGO) run --quiet -p e2e --bin demo

test: test-fast test-cluster ## All tests; with -k the second part after a failure of the first

test-fast: ## All tests that need no cluster
	$(CARGO) test --no-fail-fast --workspace --exclude e2e

test-cluster: programs release cluster-programs ## The tests on a real control plane
	$(CARGO) test --no-fail-fast -p e2e

lint: ## Formatting, spelling, clippy, documentation, licences
	$(CARGO) fmt --all --check
	typos
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items
	$(CARGO) deny --log-level error check bans licenses sources

fmt: ## Format the code
	$(CARGO) fmt --all

release: ## The static programs that people run (about 10 minutes the first time)
	@if rustup target list --installed | grep -qx $(STATIC) || rustup target add $(STATIC); then \
		$(CARGO) build --release --target $(STATIC) $(SIDECARS); \
	else \
		echo 'Without the target $(STATIC): a static program with glibc'; \
		RUSTFLAGS='-C target-feature=+crt-static -C strip=symbols' $(CARGO) build --release --target $(STATIC_GLIBC) $(SIDECARS); \
	fi

bench-attach: programs release cluster-programs ## A thousand volumes attached, and detaches in the way, beside the Go attacher
	@$(CARGO) run --quiet -p bench --bin bench-attach

bench-capacity: programs release cluster-programs ## 4,000 storage capacities, beside the Go provisioner (SEGMENTS, POLL and ROUNDS may be set)
	@$(CARGO) run --quiet -p bench --bin bench-capacity

bench-handover: programs release cluster-programs ## A standby, and how soon it works once the leader ends, beside the Go ones (as root; VOLUMES may be set)
	@$(CARGO) run --quiet -p bench --bin bench-handover

bench-idle: programs release cluster-programs ## Memory and start of an idle provisioner, beside the Go one
	@$(CARGO) run --quiet -p bench --bin bench-idle

bench-memory: programs release cluster-programs ## Memory and CPU in a cluster of 20,000 volumes, beside the Go one (ONLY=csi-resizer for one program)
	@$(CARGO) run --quiet -p bench --bin bench-memory

function-order: programs cluster-programs ## Record anew which functions of the release builds run (needs qemu-user)
	@CARGO_TARGET_DIR=target/with-symbols KEEP_SYMBOLS=1 $(MAKE) --no-print-directory release
	@$(CARGO) run --quiet -p bench --bin function-order -- target/with-symbols/$(STATIC)/release
	@$(CARGO) clean --quiet --release --target $(STATIC) $(SIDECARS) # which are linked in the old order

programs:
	@echo 'Building our programs (about 5 minutes the first time)'
	@$(CARGO) build $(PROGRAMS)

cluster-programs:
	@$(CARGO) run --quiet -p e2e --bin prepare
