# Tasks. `make demo` and `make test` set everything up by themselves; `make help` lists the rest.

BUILD ?= build
PREFIX ?= /usr/local
ONLY ?=
# A machine that only checks tells a change that breaks a test from a test that fails now and then.
TESTS = "$(BUILD)/venv/bin/python" tests/run.py -k "$(ONLY)" $(if $(CI),--again)
COMMA = ,

# $(call build,FOLDER,OPTIONS): configures a folder and builds all of it; silent when all goes well.
# CC, CFLAGS and LDFLAGS count when a folder is configured for the first time, as always with CMake.
# A machine that only checks has every warning as an error, in every folder.
build = @mkdir -p "$(1)" && \
    { [ -e "$(1)/build.ninja" ] || echo "make: compiling into $(1), which takes a minute or two"; } && \
    { cmake -G Ninja -S . -B "$(1)" $(2) $(if $(CI),-DPRONY_WERROR=ON) > "$(1)/configure.log" || \
    { cat "$(1)/configure.log"; exit 1; }; } && cmake --build "$(1)" -- --quiet

.PHONY: all
all: setup-build ## build/prony, build/libprony.so, build/libprony.a
	$(call build,$(BUILD),-DCMAKE_INSTALL_PREFIX="$(PREFIX)")

.PHONY: demo
demo: all ## profile a real network on the backends found here
	@tools/demo "$(BUILD)"

.PHONY: test
test: test-build asan-build ## every quick test, in the release build and under ASan and UBSan; ONLY=pattern
	@$(TESTS) --build "$(BUILD)" --sanitized "$(BUILD)/asan"

.PHONY: test-long
test-long: setup-long test-build ## the tests that take long: whole networks, whole installations; ONLY=pattern
	@$(TESTS) --build "$(BUILD)" --long

.PHONY: test-build
test-build: setup-test
	$(call build,$(BUILD),-DPRONY_TESTS=ON)

.PHONY: check
check: setup-check ## format, lint, layering, and a clean build with clang
	@tools/check "$(BUILD)"

.PHONY: asan-build
asan-build: setup-test
	$(call build,$(BUILD)/asan,-DPRONY_TESTS=ON -DPRONY_SANITIZE=address$(COMMA)undefined)

.PHONY: asan
asan: setup-test all asan-build ## the C tests under AddressSanitizer and UBSan, and the service under load
	@$(TESTS) --sanitized "$(BUILD)/asan"
	@PRONY="$(BUILD)/asan/prony" PRONY_PROGRAM="$(BUILD)/prony" \
	    $(TESTS) --build "$(BUILD)" tests/e2e/test_service_survival.py

# Executors are of the plain program: what ThreadSanitizer takes for itself would count against their memory limit.
.PHONY: tsan
tsan: setup-test all ## the C tests under ThreadSanitizer, and the service under load
	$(call build,$(BUILD)/tsan,-DPRONY_TESTS=ON -DPRONY_SANITIZE=thread)
	@$(TESTS) --sanitized "$(BUILD)/tsan"
	@PRONY="$(BUILD)/tsan/prony" PRONY_PROGRAM="$(BUILD)/prony" \
	    $(TESTS) --build "$(BUILD)" tests/e2e/test_service_survival.py

.PHONY: soak
soak: test-build ## the loops of what the service survives, ten times as long
	@PRONY_SOAK=1 $(TESTS) --build "$(BUILD)" tests/e2e/test_service_survival.py

.PHONY: conformance
conformance: test-build ## ONNX's own backend tests on each runtime, against the stored tables
	@"$(BUILD)/venv/bin/python" tests/conformance/run.py --build "$(BUILD)"

FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: setup-check ## FUZZ_SECONDS=60 of libFuzzer on each harness
	$(call build,$(BUILD)/fuzz,-DCMAKE_C_COMPILER=clang -DPRONY_TESTS=ON -DPRONY_LIBFUZZER=ON \
	    -DPRONY_SANITIZE=fuzzer-no-link$(COMMA)address$(COMMA)undefined)
	@tools/fuzz "$(BUILD)/fuzz" $(FUZZ_SECONDS)

.PHONY: bench
bench: setup-test all ## fidelity, A/A, overhead, recording, `explore`, `schedule`, the service, against named peers
	@bench/run "$(BUILD)"

.PHONY: install
install: all ## PREFIX=/usr/local: program, libraries, header, pkg-config, man page, completion
	@cmake --install "$(BUILD)" --prefix "$(PREFIX)"

.PHONY: wheel
wheel: setup-package all ## build/packages/prony-*.whl: for Python, on any Linux as new as Debian 12
	@"$(BUILD)/venv-package/bin/python" tools/wheel.py "$(BUILD)" "$(BUILD)/packages"

.PHONY: deb
deb: setup-package all ## build/packages/*.deb: the program with runtimes; header and libraries
	@cd "$(BUILD)" && { cpack > cpack.log 2>&1 || { cat cpack.log; exit 1; }; }
	@sed -n 's/^CPack: - package: \(.*\) generated\.$$/\1/p' "$(BUILD)/cpack.log"

.PHONY: release
release: setup-package ## build/release: source, wheel and Debian packages of this commit, and SHA256SUMS
	@tools/release "$(BUILD)"

.PHONY: setup-build setup-package setup-test setup-long setup-check
setup-build setup-package setup-test setup-long setup-check:
	@tools/setup "$(BUILD)" $(@:setup-%=%)

.PHONY: clean
clean: ## remove what was built, keep what was downloaded
	@find "$(BUILD)" -mindepth 1 -maxdepth 1 ! -name deps ! -name 'venv*' ! -name node -exec rm -rf {} +

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; \
	    do printf '  make %-9s %s\n' "$$name" "$$text"; done
