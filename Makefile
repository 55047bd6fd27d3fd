# Drover. `make` or `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GO      ?= go
PLUGINS := consul csi driver-exec driver-qemu network-bridge network-cni stats-host
# Binaries of their own: device-nvidia is linked dynamically, since it opens a library at run
# time; what driver-docker links would cost every other plugin memory (docs/adr/0008).
OWN_PLUGINS := device-nvidia driver-docker
export CGO_ENABLED ?= 0
# For tests as for programs, so that what both compile is compiled once.
export GOFLAGS ?= -trimpath
COMPAT  ?= ../shared/compat
COMPAT_MODULE := test/compat

# Packages whose tests run with the race detector in `make test`: the core, after the plugins,
# whose tests take longest.
RACE := ./plugins/... ./core/... ./sdk/...
# All packages: the SDK is a module of its own, which go.work builds with the rest.
ALL := ./... ./sdk/...
# Tests of processes mostly wait, so two packages for each processor are tested at once.
# The target vet has done the checks that go test would repeat. Without tables for debuggers
# (-w) a test program is linked in two thirds of the time.
TESTING := -p $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN)))) -vet=off -ldflags=-w -timeout 25m
# A failed test is run once more, alone, after all others, and is named at the end. A data
# race, a panic, or more than six failures end the run: docs/adr/0107.
TESTER := $(GO) run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg \
	--rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-abort-on-data-race --rerun-fails-run-root-test --rerun-fails-report
# A process with the race detector sleeps for a second before it exits, and tests
# start hundreds that end: they need not.
export GORACE ?= atexit_sleep_ms=0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/drover, bin/drover-artifact, bin/drover-s3, bin/drover-csi-local and bin/plugins/*
	@mkdir -p bin/plugins
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/drover ./cmd/drover
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/drover-plugins ./cmd/drover-plugins
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/drover-artifact ./cmd/drover-artifact
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/drover-s3 ./cmd/drover-s3
	@for p in $(PLUGINS); do ln -sf ../drover-plugins bin/plugins/$$p; done
	@ln -sf drover-plugins bin/drover-csi-local
	@for p in $(OWN_PLUGINS); do $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/plugins/$$p ./plugins/$$p || exit 1; done
	@ls -1 bin bin/plugins

.PHONY: demo
demo: build ## start a dev agent, run a job, wait until it is healthy, show it (Ctrl-C ends it; DEMO_EXIT=1 exits by itself)
	@./examples/demo.sh

.PHONY: test
test: check-fmt vet build ## what CI runs: formatting, vet, build, every test, the core with the race detector
	@rm -rf bin/flaky && mkdir -p bin/flaky
	CGO_ENABLED=1 $(TESTER)=bin/flaky/race --packages="$(RACE)" -- -race $(TESTING)
	$(TESTER)=bin/flaky/rest --packages="./test/... ./examples/... ./cmd/... ./internal/... ./bench/..." -- $(TESTING)
	cd $(COMPAT_MODULE) && GOWORK=off $(TESTER)=$(CURDIR)/bin/flaky/compat --packages=./... -- -timeout 10m
	@for f in bin/flaky/*; do [ ! -s $$f ] || { echo "Failed once and passed when run again; each is a defect, file it:"; cat $$f; }; done

.PHONY: check
check: check-fmt vet lint test clients cross ## everything CI runs, the linters, and the other platforms

.PHONY: race
race: ## every test with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 20m $(ALL)

.PHONY: e2e
e2e: build ## black-box tests on the real binaries only
	$(GO) test -count=1 -timeout 15m ./test/e2e/...

.PHONY: hostile
hostile: build ## inject faults, damage, pauses and hostile messages, DROVER_HOSTILE_ROUNDS (100) rounds each; `make test` runs a few
	DROVER_HOSTILE_ROUNDS=$${DROVER_HOSTILE_ROUNDS:-100} $(GO) test -count=1 -timeout 90m -v -run Hostile ./core/... ./plugins/... ./test/hostile ./test/e2e/...

.PHONY: nemesis
nemesis: build ## break a cluster of real servers while clients use it, DROVER_NEMESIS_ROUNDS (1000) rounds; `make test` runs 50 short ones
	DROVER_NEMESIS_ROUNDS=$${DROVER_NEMESIS_ROUNDS:-1000} $(GO) test -count=1 -timeout 4h -v ./test/e2e/nemesis

.PHONY: docs
docs: ## regenerate parts of docs/design from layers.txt, the packages' docs and the tables of states
	$(GO) test -count=1 ./internal/repotest -run "TestTheTableOfLayout|TestTheStateDiagrams" -update
	$(GO) test -count=1 ./core/agent/group -run TestTheDiagram -update

.PHONY: sim
sim: ## run SIM (10000) random histories of vanishing nodes, SIM_SERVERS (1000) of servers and SIM_VOLUMES (1000) of a volume; a failure prints its seed
	$(GO) test -count=1 -timeout 60m ./test/sim/interleave -rapid.seed=0 -rapid.checks=$${SIM:-10000}
	DROVER_SIM_SEEDS=$${SIM_SERVERS:-1000} $(GO) test -count=1 -timeout 60m -v ./test/sim/servers
	DROVER_SIM_SEEDS=$${SIM_VOLUMES:-1000} $(GO) test -count=1 -timeout 60m ./test/sim/volumes

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s) each
	@./internal/repotest/fuzz.sh $${FUZZTIME:-30s}

.PHONY: bench
bench: build ## run the benchmarks behind bench/RESULTS.md
	$(GO) test -run '^$$' -bench . -benchmem ./bench/... ./core/consensus/badgerlog
	./bench/agent.sh

.PHONY: compat
compat: build ## compare our answers with the recorded answers of the reference (needs COMPAT)
	@./test/compat/records.sh $(COMPAT)

.PHONY: compat-cluster
compat-cluster: build ## the same for three servers and a node in network namespaces (needs COMPAT and root)
	@./test/compat/scenario.sh cluster $(COMPAT)

.PHONY: compat-volumes
compat-volumes: build ## the same for host volumes, and with CSI_PLUGIN=local or a driver for those of CSI (needs COMPAT and root)
	@./test/compat/scenario.sh volumes $(COMPAT)

.PHONY: compat-services
compat-services: build ## the same for services, checks, identities and the keyring (needs COMPAT and root)
	@./test/compat/scenario.sh services $(COMPAT)

.PHONY: clients
clients: build ## test third-party programs (Prometheus) with a live agent, in a separate module
	cd $(COMPAT_MODULE)/prometheus && GOWORK=off $(GO) test -count=1 -timeout 10m ./...

.PHONY: clients-suite
clients-suite: build ## run the tests of the reference's API client against bin/drover; test/compat/clients.reasons explains failures
	@./test/compat/clients.sh

.PHONY: gpu
gpu: build ## run jobs on the NVIDIA GPUs of this machine and say what holds (needs root and nvcc)
	@./test/gpu/check.sh bin

.PHONY: cross
cross: ## compile for the other platforms
	@for t in linux/arm64 darwin/arm64 windows/amd64; do echo $$t; \
	  GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/... && \
	  GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./core/... ./sdk/... ./plugins/... || exit 1; done

.PHONY: dist
dist: ## release archives for linux/amd64 and linux/arm64 under dist/
	@for arch in amd64 arm64; do d=dist/drover_$(VERSION)_linux_$$arch; mkdir -p $$d/plugins; \
	  for b in drover drover-plugins drover-artifact drover-s3; do GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $$d/$$b ./cmd/$$b || exit 1; done; \
	  for p in $(OWN_PLUGINS); do GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $$d/plugins/$$p ./plugins/$$p || exit 1; done; \
	  for p in $(PLUGINS); do ln -sf ../drover-plugins $$d/plugins/$$p; done; ln -sf drover-plugins $$d/drover-csi-local; cp LICENSE README.md $$d/; mkdir -p $$d/systemd; cp packaging/systemd/* $$d/systemd/; \
	  tar -C dist -czf $$d.tar.gz $$(basename $$d); done; ls -lh dist/*.tar.gz

.PHONY: lint
lint: ## find dead code, and run golangci-lint if it is installed, otherwise the toolchain's checks
	@dead=$$($(GO) run golang.org/x/tools/cmd/deadcode@v0.52.0 -test $(ALL)) && { [ -z "$$dead" ] || { echo "$$dead"; exit 1; }; }
	@if command -v golangci-lint >/dev/null; then golangci-lint run $(ALL); \
	else echo "golangci-lint is not installed; running go vet and staticcheck"; $(GO) vet $(ALL) && $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.7.0 $(ALL); fi

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w $$(git ls-files '*.go' | grep -v '/pb/')

.PHONY: check-fmt
check-fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted (make fmt):"; echo "$$out"; exit 1; }

.PHONY: vet
vet:
	$(GO) vet $(ALL)

.PHONY: mutations
mutations: ## whether the contract's suite finds each of the mistakes that are made in a generated driver (minutes)
	DROVER_MUTATIONS=all go test ./cmd/drover/scaffold -run FindsEachMutation -v -timeout 60m

.PHONY: proto
proto: ## regenerate the code of sdk/proto
	./sdk/proto/generate.sh

.PHONY: golden
golden: ## regenerate the golden lists of linked modules and the released contracts (additions only)
	$(GO) test ./internal/repotest -run TestLinkedModules -rewrite
	$(GO) test ./sdk/wirecompat -rewrite

.PHONY: clean
clean: ## remove build outputs
	rm -rf bin dist
