# Modules are found by their go.mod: a new one is linted and tested from its
# first commit. Each is tested as its users get it, by its own go.mod; the
# workspace is there so that "go run ./demo" and "go run ./proof/lab" work from the root.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
export GOWORK := off

MODULES := $(patsubst %/go.mod,%,$(sort $(shell find . -name go.mod -not -path '*/.*/*' -not -path '*/testdata/*')))

STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Seconds, for all fuzz targets together.
FUZZTIME ?= 120

# Seconds, for all mutants together; 0 tries all of them.
MUTANTTIME ?= 0

# Percent of the root module's statements that the cheap forms of its tests must reach.
COVERAGE := 95

# How long "make soak" takes.
SOAK ?= 5m

# How often "make long" runs every test.
LONGCOUNT ?= 10

# $(call each,COMMAND) runs COMMAND in every module and says so.
each = for m in $(MODULES); do echo "--- $$m: $(1)"; (cd "$$m" && $(1)); done

# Nested modules, and packages in which the race detector spoils something: a test names kit.Race.
NESTED  := $(filter-out .,$(MODULES))
SPOILED := $(foreach m,$(NESTED),$(if $(shell grep -rlE --include='*_test.go' '\bkit\.Race' $(m)),$(m)))

# A target for each nested module: all its tests, with the race detector.
RACES := $(NESTED:%=race@%)

.PHONY: test fips whole race nested lint need vuln known mutants fuzz bench lab soak bounds long newest sbom release rehearse size help

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1\t/' | expand -t 14

# In the order of what fails soonest; each step is a job of .github/workflows/ci.yml.
# TALLYSTICK_REQUIRE turns tests that would skip for want of a tool into failures. The time
# limits are for a test that hangs; a machine that is busy with other things must not meet them.
# "go vet" is the business of lint, and so of no other step.
test: lint fips whole race nested known ## all of the next five, in the order of what fails soonest
	@echo "make test: ran every test of $(words $(MODULES)) modules, each by its own go.mod: $(MODULES)"

# Each test of the root module in its cheap form, once for three questions.
fips: need ## the root module's tests, where cryptography that is not FIPS 140-3 approved panics; fails below COVERAGE percent of statements
	@.ci/cover $(COVERAGE)

# Without the race detector: what it spoils, such as allocation budgets; the whole forms of tests
# that have one; and tests whose work other programs do. A nested module that has
# nothing of that is left to "nested", which runs no less of it.
whole: need ## the root module's packages that have whole forms, and the cheap ones of nested modules that ask for it, without the race detector
	@formed=$$(go list -f '{{$$d := .Dir}}{{range .TestGoFiles}}{{$$d}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$d}}/{{.}} {{end}}' ./... | \
		xargs grep -lE '\bkit\.(Brief|Long|OnlyWhole|Outside|Race|Whole)' | xargs -n1 dirname | sort -u); \
	echo "--- .: TALLYSTICK_WHOLE=1 go test" $$formed; \
	TALLYSTICK_REQUIRE=1 TALLYSTICK_WHOLE=1 go test -vet=off -timeout=1h $$formed
	@export TALLYSTICK_REQUIRE=1; for m in $(SPOILED); do echo "--- $$m: go test ./..."; (cd "$$m" && go test -vet=off ./...); done

race: need ## the root module's tests, with the race detector
	@echo "--- .: go test -race"
	@TALLYSTICK_REQUIRE=1 CGO_ENABLED=1 go test -vet=off -race -shuffle=on -timeout=1h ./...

# Two modules at a time: those with a browser and a Redis wait for them most of the time.
nested: need ## the whole forms of every nested module, with the race detector; make race@demo has one alone
	@$(MAKE) -j2 --output-sync=target $(RACES)

.PHONY: $(RACES)
$(RACES): race@%: need
	@echo "--- $*: go test -race"
	@cd "$*" && TALLYSTICK_REQUIRE=1 TALLYSTICK_WHOLE=1 CGO_ENABLED=1 go test -vet=off -race -shuffle=on -timeout=1h ./...

lint: ## gofmt, vet, staticcheck, tidy go.mod files
	@echo "--- gofmt -l"; out=$$(gofmt -l .); if [[ -n $$out ]]; then echo "not formatted:"; echo "$$out"; exit 1; fi
	@$(call each,go vet ./...)
	@echo "--- other systems: go build ./..."
	@for system in darwin windows plan9; do GOOS=$$system GOARCH=amd64 CGO_ENABLED=0 GOWORK=off go build ./...; done
	@$(call each,$(STATICCHECK) ./...)
	@$(call each,go mod tidy -diff)
	@echo "--- the root module needs no other module of this repository"
	@if go list -m all | tail -n +2 | grep tallystick; then exit 1; fi
	@echo "--- go build ./demo, in the workspace"
	@GOWORK= go build -o /dev/null ./demo
	@echo "--- what newcomers type leaves go.work.sum as it is"
	@was=$$(cksum <go.work.sum); export GOWORK=; go list -m all >/dev/null; go doc ./middleware >/dev/null; go mod download; \
	if [[ $$was != $$(cksum <go.work.sum) ]]; then echo "go.work.sum was not complete; commit it"; exit 1; fi

vuln: ## govulncheck; fails also where its database cannot be reached
	@.ci/vuln $(MODULES)

known: ## govulncheck; where its database cannot be reached it says NOT CHECKED, and passes
	@.ci/vuln $(MODULES) || [[ $$? == 3 ]]

need:
	@.ci/need

mutants: need ## do the tests notice? all, or MUTANTTIME seconds, or of what has changed since SINCE=main
	@.ci/mutants $(MUTANTTIME)

fuzz: need ## every fuzz target, FUZZTIME seconds in all
	@.ci/fuzz $(FUZZTIME)

bench: need ## our costs beside the floor, other limiters and a fleet over Redis: ratios, budgets; UPDATE=1 writes the pages
	@cd proof/bench && go run . $(if $(UPDATE),-update)

bounds: ## the tables of README.md, docs/bounds.md, proof/lab/README.md and proof/lab/price/README.md, by the simulation; some minutes
	@cd proof/lab && go run . sim -update ../.. && go run . price -update ../..

lab: need ## every attacker against real instances behind a real nginx, beside what is promised
	@GOWORK= go run ./proof/lab attack

soak: need ## SOAK=5m: rotations, reloads, restarts, wrong clocks and floods at once, with the race detector
	@GOWORK= CGO_ENABLED=1 go run -race ./proof/lab attack -short -for "$(SOAK)"

long: need ## every test LONGCOUNT times, every mutant, half an hour of fuzzing
	@export TALLYSTICK_REQUIRE=1 TALLYSTICK_LONG=1 CGO_ENABLED=1; \
	$(call each,go test -race -shuffle=on -count=$(LONGCOUNT) -timeout=6h ./...); \
	cd proof/lab && go test -timeout=1h -run=TestPrintedTables ./sim ./price
	@.ci/mutants 0
	@.ci/fuzz 1800

rehearse: ## release the last commit without publishing it, and install it as users do
	@.ci/rehearse v0.0.1

newest: need ## vet and race by the newest Go; fails also where it cannot be had
	@.ci/newest $(MODULES)

size: ## lines, files, pages, words, names of each package; CPU=1: the CPU seconds of the tests; AGAINST=DIRECTORY: another checkout beside it
	@.ci/size $(if $(CPU),-cpu) $(AGAINST) .

sbom: need ## the bill of materials of the root module, CycloneDX in JSON
	@.ci/sbom .

release: ## VERSION=v1.2.3: test, tag and sign it, and write dist/VERSION; pushes nothing
	@.ci/release "$(VERSION)"
