# make help tells what there is. On two cores one heavy job at a time is
# fastest, so targets do not run side by side, not even with -j.
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# What test, bench and fuzz work on, and further flags for go test:
#   make test PKG=./relay/... ARGS='-run TestOrder -v'
PKG  ?= ./...
ARGS ?=

FUZZTIME  ?= 60s
SEQUENCES ?= 10000
DATABASES ?= sqlite postgres mariadb mysql
FAULTS    ?= 40
SEED      ?= 0

GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION   := v1.9.0

# The version is in the path, so another one is another file.
TOOLS         := $(CURDIR)/.tools
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
GOVULNCHECK   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck

SERVICES := go run ./internal/testenv/services
# Two steps, because eval "$(…)" succeeds also when the command fails.
WITH_SERVICES = exports="$$($(SERVICES) start)"; eval "$$exports";

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: services
services: ## Start PostgreSQL 15 and 18, MariaDB and Kafka (as root, installs what is missing)
	@$(SERVICES) start

.PHONY: services-stop
services-stop: ## Stop them; their data stays
	@$(SERVICES) stop

.PHONY: test
test: ## Run the tests with the race detector, on real servers (PKG=, ARGS=)
	@$(WITH_SERVICES) go test -race -timeout 20m $(ARGS) $(PKG)

.PHONY: plugins
plugins: ## Run the tests beside other GORM plugins, a module of its own (ARGS=)
	@$(WITH_SERVICES) cd internal/plugins && go vet ./... && go test -race -timeout 20m $(ARGS) ./...

# watermill-amqp has data races of its own, see the module's doc.go.
WITHOUT_RACE := github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp

.PHONY: brokers
brokers: ## Run the tests on RabbitMQ, NATS and Redis, a module of its own (as root, installs what is missing; ARGS=)
	@cd internal/brokers && go run ./install
	@$(WITH_SERVICES) cd internal/brokers && go vet ./... && go test -race -gcflags=$(WITHOUT_RACE)=-race=false -timeout 20m $(ARGS) ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Check the format, go vet, golangci-lint
	@unformatted="$$(gofmt -l .)"; \
	if [[ -n $$unformatted ]]; then printf 'not formatted:\n%s\n' "$$unformatted" >&2; exit 1; fi
	go vet ./...
	$(GOLANGCI_LINT) run ./...

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Look for known vulnerabilities in what we call
	go run ./internal/vuln $(GOVULNCHECK)

.PHONY: bench
bench: PKG := ./internal/bench/...
bench: ## Run the benchmarks (ARGS=)
	@$(WITH_SERVICES) go test -run '^$$' -bench . -count 1 $(ARGS) $(PKG)

.PHONY: bench-relay
bench-relay: ## Measure the relay at full size, beside Watermill's forwarder (ARGS='-only drain -small')
	@$(WITH_SERVICES) cd internal/benchrelay && go run . $(ARGS)

.PHONY: bench-relay-check
bench-relay-check: ## Compile and test these measurements, without making them
	@$(WITH_SERVICES) cd internal/benchrelay && go vet ./... && go test -timeout 10m ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME=60s, one after the other (PKG=), then fuzz-writes
	@for package in $$(go list $(PKG)); do \
		targets="$$(go test -list '^Fuzz' $$package)"; \
		for target in $$(grep '^Fuzz' <<<"$$targets" | grep -v '^FuzzDifferential$$' || true); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $(ARGS) $$package; \
		done; \
	done
	@$(MAKE) fuzz-writes

.PHONY: fuzz-writes
fuzz-writes: ## Run SEQUENCES=10000 random sequences of writes on each database (DATABASES=)
	@$(WITH_SERVICES) for database in $(DATABASES); do \
		echo "$$database"; \
		OUTBOX_TEST_DIFFERENTIAL=$$database go test -run '^$$' -fuzz '^FuzzDifferential$$' -fuzztime $(SEQUENCES)x $(ARGS) ./gormoutbox; \
	done

.PHONY: faults
faults: ## Kill, stop and cut off relays, consumers, writers, databases and Kafka at random (FAULTS=, DATABASES=, SEED=)
	@for database in $(filter postgres mariadb,$(DATABASES)); do \
		go run ./internal/faults -db $$database -faults $(FAULTS) -seed $(SEED) -for 30m; \
	done

.PHONY: faults-short
faults-short: ## The same for a minute each, as CI does it
	@for database in postgres mariadb; do \
		go run ./internal/faults -db $$database -faults 6 -seed 3 -for 40s \
			-kinds 'relay killed,relay frozen for 3 leases,database killed,sessions terminated,consumer killed after commit,consumers restarted one by one'; \
	done

.PHONY: scenarios
scenarios: ## Run relays that come and go, a broker that is away, a poisoned aggregate, in full size (ARGS=)
	@$(WITH_SERVICES) OUTBOX_TEST_SCENARIOS=full go test -v -timeout 60m $(ARGS) ./internal/scenarios

.PHONY: quickstart
quickstart: ## Run the example of the README
	go run ./examples/quickstart

.PHONY: examples
examples: ## Run the examples of CQRS and of a saga, which need no server
	go run ./examples/cqrs
	go run ./examples/saga

.PHONY: ci
ci: ## All that CI runs; stops the servers at the end
	@trap '$(SERVICES) stop' EXIT; \
	$(MAKE) services; \
	$(MAKE) lint; \
	$(MAKE) vuln; \
	$(MAKE) test; \
	$(MAKE) plugins; \
	$(MAKE) brokers; \
	$(MAKE) bench-relay-check; \
	$(MAKE) faults-short; \
	$(MAKE) quickstart; \
	$(MAKE) examples

$(GOLANGCI_LINT):
	GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(GOVULNCHECK):
	GOBIN=$(@D) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
