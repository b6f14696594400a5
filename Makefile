# Everything a newcomer or a developer runs. The scripts fetch what is missing and say what they do;
# RAMSPLIT_NO_INSTALL=1 keeps them from it.

CARGO ?= cargo
# Options for every cargo command that builds, e.g. --locked.
CARGO_FLAGS ?=
# Options of `ramsplit demo`, e.g. DEMO_ARGS="--seconds 60".
DEMO_ARGS ?=
# Which server the demo runs: any (what is there already, else MariaDB), mysql or mariadb.
DEMO_SERVER ?= any

SERVER_mysql = scripts/mysql-server.sh
SERVER_mariadb = scripts/mariadb-server.sh
SERVER_any = RAMSPLIT_NO_INSTALL=1 $(SERVER_mysql) 2>/dev/null || $(SERVER_mariadb)

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

.PHONY: demo
demo: rust ## Start a primary, a memory replica, the proxy and load (DEMO_ARGS, DEMO_SERVER)
	$(CARGO) build --release $(CARGO_FLAGS)
	@server=$$($(SERVER_$(DEMO_SERVER))) && \
	exec $(CARGO) run --release --quiet $(CARGO_FLAGS) -- demo --mysqld "$$server" $(DEMO_ARGS)

.PHONY: test
test: fmt lint doc ## Everything a change must pass: fmt, lint, doc and all tests
	scripts/test-env.sh $(CARGO) test $(CARGO_FLAGS)

.PHONY: fmt
fmt: rust ## Check the formatting
	$(CARGO) fmt --check

.PHONY: lint
lint: rust ## Clippy and, where it is installed, shellcheck; warnings are errors
	$(CARGO) clippy --all-targets $(CARGO_FLAGS) -- -D warnings
	@if command -v shellcheck >/dev/null; then echo shellcheck; shellcheck -x scripts/*.sh tests/drivers/*.sh docker/*/*.sh .ci/run; \
	else echo "shellcheck is not installed: the scripts were not checked"; fi

.PHONY: doc
doc: rust ## Build the documentation, private items too; warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items $(CARGO_FLAGS)

.PHONY: unit
unit: rust ## Unit and property tests: no server needed
	$(CARGO) test --lib $(CARGO_FLAGS)

.PHONY: integration
integration: rust ## Tests on real MySQL and MariaDB servers
	scripts/test-env.sh $(CARGO) test --test it $(CARGO_FLAGS)

.PHONY: conformance
conformance: rust ## The servers' own test suites through the proxy, whole; some 40 minutes (CONFORMANCE=names: some tests)
	RAMSPLIT_CONFORMANCE=$(or $(CONFORMANCE),full) scripts/test-env.sh $(CARGO) test --test it $(CARGO_FLAGS) -- \
	conformance:: --nocapture --test-threads 1

.PHONY: consistency
consistency: rust ## Sessions write and read while the replica is held back, and what they saw is checked: a million operations a server
	RAMSPLIT_CHECK_OPERATIONS=500000 scripts/test-env.sh $(CARGO) test --release --test it $(CARGO_FLAGS) -- \
	consistency::checker --nocapture --test-threads 1

.PHONY: rounds
rounds: rust ## The replica is lost in every way there is under load, 50 times on each server; some 10 minutes
	RAMSPLIT_ROUNDS=50 scripts/test-env.sh $(CARGO) test --test it $(CARGO_FLAGS) -- rounds:: --nocapture --test-threads 1

.PHONY: rust
rust:
	@command -v $(CARGO) >/dev/null || { \
	echo "Rust is missing. Get it from https://rustup.rs or, where it is 1.88 or newer, as package cargo." >&2; \
	exit 1; }
