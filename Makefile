# Lists its targets: make
SHELL := /bin/bash
export PATH := $(CURDIR)/bin:$(PATH)

FUZZTIME ?= 10s
ROUNDS ?= 50
SEEDS ?= 120000
SIMTIME ?= 2m
DIFFTIME ?= 30s
HOSTILETIME ?= 1m

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 16

.PHONY: build
build: ## Build ./bin/cvmstore
	@mkdir -p bin
	go build -trimpath -o bin/cvmstore .

.PHONY: run
run: build ## Build, then run a server on 127.0.0.1:6379 with its data in ./cvmstore-data (ARGS="--port 7000")
	./bin/cvmstore serve $(ARGS)

.PHONY: setup
setup: ## Install what the tests need (done by the targets that need it)
	@bash scripts/setup.sh browser

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

.PHONY: bench-quick
bench-quick: build ## The whole evaluation in small, a quarter of an hour: report in bench-report
	@bash scripts/setup.sh bench
	./bin/cvmstore bench all --quick $(ARGS)

.PHONY: bench-all
bench-all: build ## The whole evaluation, hours: report in bench-report
	@bash scripts/setup.sh bench
	./bin/cvmstore bench all $(ARGS)

.PHONY: benchio
benchio: build ## Measure the sealed I/O path: a modelled drive, a file, ablations (ARGS="--only file --sizes-mib 16")
	./bin/cvmstore bench io $(ARGS)

.PHONY: bench-scale
bench-scale: build ## Restart 1, 3 and 10 million keys after a clean stop and kill -9 (ARGS="--keys 1000000")
	./bin/cvmstore bench scale $(ARGS)

.PHONY: bench-compact
bench-compact: build ## Overwrite a nearly full volume: write amplification, latency (ARGS="--times 4")
	./bin/cvmstore bench compact $(ARGS)

.PHONY: sim
sim: ## Run the simulator for SIMTIME (2m): seeds a second and faults injected
	CVMSTORE_SIM=$(SIMTIME) go test -count=1 -timeout 30m -run 'TestSim$$' -v ./internal/sim

.PHONY: difftest
difftest: setup ## Send random commands here and to redis-server for DIFFTIME (30s), compare replies byte for byte
	go test -count=1 -timeout 30m -v -run RepliesAre ./resp/difftest -for $(DIFFTIME)

.PHONY: compat
compat: ## Run redis' own Tcl suite and other people's clients against the server; installs what they need
	bash compat/upstream.sh
	bash compat/clients.sh
	go -C compat vet ./...

.PHONY: hostile
hostile: ## Random compositions of attacks on the NVMe driver for HOSTILETIME (1m)
	go test -count=1 -timeout 60m -run 'TestComposition$$' -v ./internal/hostile -hostile.for=$(HOSTILETIME)

.PHONY: test-vfio
test-vfio: ## Run the NVMe driver, and the whole server on it, in QEMU guests with an IOMMU (VARIANTS="ci": scripts/vfio.sh)
	bash scripts/vfio.sh $(or $(VARIANTS),ci)

.PHONY: soak
soak: setup ## Hours: SEEDS (120000: 20000 and more of each mode) of the simulator, ROUNDS (50) of kill -9, 10 minutes beside redis-server and of each fuzz target
	go test -count=1 -timeout 3h -run 'TestSim$$' -v ./internal/sim -sim.seeds=$(SEEDS)
	CVMSTORE_KILL_ROUNDS=$(ROUNDS) go test -count=1 -timeout 60m -v -run 'UnderLoad' ./e2e
	$(MAKE) difftest DIFFTIME=10m
	$(MAKE) hostile HOSTILETIME=10m
	$(MAKE) test-vfio VARIANTS=soak
	bash scripts/fuzz.sh 10m

.PHONY: clean
clean: ## Remove what was built (never data)
	rm -rf bin

.PHONY: deb
deb: ## Build a Debian package in ./dist, with unit, manual page, completions
	@bash scripts/release.sh deb

.PHONY: reproducible
reproducible: ## Check that two clean builds, in two places, agree bit for bit
	@bash scripts/release.sh check

.PHONY: sbom
sbom: ## Write what the program is made of to ./dist (CycloneDX)
	@bash scripts/release.sh sbom
