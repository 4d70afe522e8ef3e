# Everything a contributor runs. `make help` lists it.
SHELL := /bin/bash
CARGO ?= cargo
PROGRAMS := -p csi-provisioner -p local-driver -p e2e

.PHONY: help demo test test-fast test-cluster lint fmt programs cluster-programs

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

demo: programs cluster-programs ## A claim becomes a volume on a real control plane, and goes away again
	@$(CARGO) run --quiet -p e2e --bin demo

test: test-fast test-cluster ## All tests

test-fast: ## All tests that need no cluster
	$(CARGO) test --workspace --exclude e2e

test-cluster: programs cluster-programs ## The tests on a real control plane
	$(CARGO) test -p e2e

lint: ## Formatting, spelling, clippy, documentation, licences
	$(CARGO) fmt --all --check
	typos
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items
	$(CARGO) deny --log-level error check bans licenses sources

fmt: ## Format the code
	$(CARGO) fmt --all

programs:
	@echo 'Building our programs (about 5 minutes the first time)'
	@$(CARGO) build $(PROGRAMS)

cluster-programs:
	@$(CARGO) run --quiet -p e2e --bin prepare
