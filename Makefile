# Lists its targets: make
SHELL := /bin/bash
export PATH := $(CURDIR)/bin:$(PATH)

FUZZTIME ?= 10s
ROUNDS ?= 50

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/' | expand -t 16

.PHONY: build
build: ## Build ./bin/cvmstore
	@mkdir -p bin
	go build -trimpath -o bin/cvmstore .

.PHONY: run
run: build ## Build, then run a server on 127.0.0.1:6379 with its data in ./cvmstore-data (ARGS="--port 7000")
	./bin/cvmstore serve $(ARGS)

.PHONY: setup
setup: ## Install what the tests need (done by the targets that need it)
	@bash scripts/setup.sh

.PHONY: test
test: setup ## Run all tests
	go test ./...

.PHONY: check
check: ## Format, vet, staticcheck, layering, builds for other systems
	@bash scripts/check.sh

.PHONY: fmt
fmt: ## Format all Go code
	go tool -modfile=tools/go.mod gofumpt -w .

.PHONY: race
race: setup ## Run all tests under the race detector
	CGO_ENABLED=1 go test -race -short ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	bash scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build setup ## Compare SET and GET with redis-server, interleaved (ARGS="--rounds 3 --only GET")
	./bin/cvmstore bench redis $(ARGS)

.PHONY: soak
soak: setup ## Long runs: kill -9 under load, ROUNDS (50) times
	CVMSTORE_KILL_ROUNDS=$(ROUNDS) go test -count=1 -timeout 60m -v -run UnderLoad ./e2e

.PHONY: clean
clean: ## Remove what was built (never data)
	rm -rf bin
