# Tasks. `make demo` and `make test` set everything up by themselves; `make help` lists the rest.

BUILD ?= build
CMAKE = cmake -G Ninja -S .
PREFIX ?= /usr/local
PYTHON = $(BUILD)/venv/bin/python

.PHONY: all
all: setup-build ## build/prony, build/libprony.so, build/libprony.a
	@$(CMAKE) -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) > $(BUILD)/configure.log || \
	    { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build $(BUILD) -- --quiet

.PHONY: demo
demo: setup-run all ## profile a real network on the backends found here
	@tools/demo $(BUILD)

.PHONY: test
test: setup-test ## every test, in the release build and under ASan and UBSan
	@$(CMAKE) -B $(BUILD) -DPRONY_TESTS=ON > $(BUILD)/configure.log || \
	    { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build $(BUILD) -- --quiet
	@$(MAKE) --no-print-directory asan-build
	@$(PYTHON) tests/run.py --build $(BUILD) --sanitized $(BUILD)/asan

.PHONY: check
check: setup-check ## format, lint, layering, and a clean build with clang
	@tools/check $(BUILD)

.PHONY: asan-build
asan-build:
	@$(CMAKE) -B $(BUILD)/asan -DPRONY_TESTS=ON -DPRONY_SANITIZE=address,undefined \
	    > $(BUILD)/asan.log || { cat $(BUILD)/asan.log; exit 1; }
	@cmake --build $(BUILD)/asan -- --quiet

.PHONY: asan
asan: setup-test all asan-build ## the C tests under AddressSanitizer and UBSan, and the service under load
	@$(PYTHON) tests/run.py --sanitized $(BUILD)/asan
	@PRONY=$(abspath $(BUILD))/asan/prony PRONY_PROGRAM=$(abspath $(BUILD))/prony \
	    LSAN_OPTIONS=suppressions=$(abspath tests/leaks.supp) PYTHONDONTWRITEBYTECODE=1 \
	    $(PYTHON) -m pytest -q --no-header --tb=short -p no:cacheprovider \
	    --import-mode=importlib tests/e2e/test_service_survival.py

.PHONY: tsan
tsan: setup-test all ## the C tests under ThreadSanitizer, and the service under load
	@$(CMAKE) -B $(BUILD)/tsan -DPRONY_TESTS=ON -DPRONY_SANITIZE=thread > /dev/null
	@cmake --build $(BUILD)/tsan -- --quiet
	@$(PYTHON) tests/run.py --sanitized $(BUILD)/tsan
	@PRONY=$(abspath $(BUILD))/tsan/prony PRONY_PROGRAM=$(abspath $(BUILD))/prony \
	    TSAN_OPTIONS=ignore_noninstrumented_modules=1 PYTHONDONTWRITEBYTECODE=1 \
	    $(PYTHON) -m pytest -q --no-header --tb=short -p no:cacheprovider \
	    --import-mode=importlib tests/e2e/test_service_survival.py

.PHONY: soak
soak: setup-test ## the loops of what the service survives, ten times as long
	@$(CMAKE) -B $(BUILD) -DPRONY_TESTS=ON > $(BUILD)/configure.log || \
	    { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build $(BUILD) -- --quiet
	@PRONY_SOAK=1 $(PYTHON) tests/run.py --build $(BUILD) -k test_service_survival

.PHONY: conformance
conformance: setup-test ## ONNX's own backend tests on each runtime, against the stored tables
	@$(CMAKE) -B $(BUILD) -DPRONY_TESTS=ON > $(BUILD)/configure.log || \
	    { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build $(BUILD) -- --quiet
	@$(PYTHON) tests/conformance/run.py --build $(BUILD)

FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: setup-check ## FUZZ_SECONDS=60 of libFuzzer on each harness
	@CC=clang $(CMAKE) -B $(BUILD)/fuzz -DPRONY_TESTS=ON -DPRONY_LIBFUZZER=ON \
	    -DPRONY_SANITIZE=fuzzer-no-link,address,undefined > /dev/null
	@cmake --build $(BUILD)/fuzz -- --quiet
	@tools/fuzz $(BUILD)/fuzz $(FUZZ_SECONDS)

.PHONY: bench
bench: setup-test all ## fidelity, A/A, overhead, recording, `explore`, `schedule`, the service, against named peers
	@bench/run $(BUILD)

.PHONY: install
install: all ## PREFIX=/usr/local: program, libraries, header, pkg-config, man page, completion
	@cmake --install $(BUILD) --prefix $(PREFIX)

.PHONY: setup-build setup-run setup-test setup-check
setup-build setup-run setup-test setup-check:
	@tools/setup $(BUILD) $(@:setup-%=%)

.PHONY: clean
clean: ## remove what was built, keep what was downloaded
	@find $(BUILD) -mindepth 1 -maxdepth 1 ! -name deps ! -name 'venv*' ! -name node -exec rm -rf {} +

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; \
	    do printf '  make %-8s %s\n' "$$name" "$$text"; done
