# Everything people do daily. Each target sets up .venv by itself; the first time builds libllama (minutes).
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The library alone: no multimodal part, no tools. For a GPU: make serve CMAKE_ARGS="-DGGML_CUDA=on" (README).
CMAKE_ARGS ?=
# No AMX: built by GCC 12.2 its kernels end in an illegal instruction at the first batch.
NO_AMX := -DCMAKE_C_FLAGS=-U__AMX_INT8__ -DCMAKE_CXX_FLAGS=-U__AMX_INT8__
TRIM := $(NO_AMX) -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_OPENSSL=OFF
BINDING := llama-cpp-python==0.3.36
# What is mended in libllama before it is built: see native/README.md.
PATCHES := $(sort $(wildcard native/*.patch))
SOURCES := $(VENV)/sources

.PHONY: serve test test-slow test-harness lint bench gpu-kit bench-gpu bench-page screenshots chromium train-smoke clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Written anew only when it changes: then, and not at every change of this file, libllama is built again.
$(VENV)/build: FORCE | $(BIN)/python
	@{ echo '$(BINDING) $(TRIM)'; cat $(PATCHES); } | cmp -s - $@ || { echo '$(BINDING) $(TRIM)'; cat $(PATCHES); } > $@
FORCE:

# pip says nothing for minutes while it compiles: show the compiler's own counter, keep the log.
$(VENV)/libllama: $(VENV)/build | $(BIN)/python
	@echo "installing $(BINDING) (built from source once: about 4 minutes on 2 cores)"
	@rm -rf $(SOURCES) && mkdir $(SOURCES)
	@$(BIN)/python -m pip download --disable-pip-version-check --quiet --no-deps --no-binary llama-cpp-python --dest $(SOURCES) $(BINDING)
	@tar -xf $(SOURCES)/*.tar.gz -C $(SOURCES) --strip-components 1 && rm $(SOURCES)/*.tar.gz
	@for p in $(PATCHES); do echo "applying $$p"; \
	  if command -v patch >/dev/null; then patch -p1 --quiet -d $(SOURCES) < $$p; \
	  else git -C $(SOURCES) init -q && git -C $(SOURCES) apply "$(CURDIR)/$$p"; fi || exit 1; done
	@set -o pipefail; CMAKE_ARGS="$(TRIM) $(CMAKE_ARGS)" $(BIN)/python -m pip install --disable-pip-version-check \
	  --verbose --force-reinstall --no-cache-dir ./$(SOURCES) 2>&1 | tee $(VENV)/libllama.log | { grep --line-buffered -oE '^ *\[[0-9]+/[0-9]+\]|^Successfully.*' || true; } \
	  | awk '{ if ($$1 ~ /^\[/) { printf "\rcompiling %s", $$1 } else { printf "\n%s\n", $$0 } fflush() } END { print "" }' \
	  || { tail -n 40 $(VENV)/libllama.log; exit 1; }
	@$(BIN)/python -c "import llama_cpp" && touch $@

$(VENV)/installed: pyproject.toml $(VENV)/libllama
	@echo "installing foretoken and its tools"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[dev]'
	@touch $@

serve: $(VENV)/installed  ## the embedded model, or make serve MODEL=file.gguf ARGS="-np 4"
	$(BIN)/foretoken serve $(MODEL) $(ARGS)

# The browser tests run in the distribution's own Chromium; where it cannot be had they are skipped, and say so.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	get() { $$1 apt-get install -y -qq chromium || { $$1 apt-get update -qq && $$1 apt-get install -y -qq chromium; }; }; \
	if ! command -v apt-get >/dev/null; then echo "no Chromium found: the browser tests will be skipped"; exit 0; fi; \
	echo "installing Chromium for the browser tests"; \
	if [ "$$(id -u)" = 0 ]; then get ""; else get "sudo -n"; fi >/dev/null 2>&1 \
	|| echo "Chromium could not be installed (apt-get install chromium): the browser tests will be skipped"

# Most tests wait for one core: two files at a time take little more than half the time. A page that must draw within five
# seconds wants the machine to itself.
WORKERS ?= 2

test: $(VENV)/installed chromium  ## all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --ignore tests/browser
	$(BIN)/python -m pytest tests/browser

test-slow: $(VENV)/installed  ## 10,000 malformed bodies, the OpenAPI fuzz, 1,000 clients, 1,000 schemas, 50 agent sessions
	FORETOKEN_SLOW=1 $(BIN)/python -m pytest tests/server/test_fuzz.py tests/server/test_load.py tests/grammar tests/server/tools

test-harness: $(VENV)/installed  ## lm-evaluation-harness, in a venv of its own: scores with and without speculation
	$(PYTHON) -m venv .venv-harness
	.venv-harness/bin/python -m pip install --disable-pip-version-check --quiet "lm-eval[api]==0.4.13"
	FORETOKEN_LM_EVAL=$(CURDIR)/.venv-harness/bin/lm_eval $(BIN)/python -m pytest -s tests/server/test_harness.py

lint: $(VENV)/installed  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed  ## the engine beside bare libllama, the drafters, plain against speculated
	$(BIN)/foretoken bench engine $(MODEL)
	$(BIN)/foretoken bench drafters
	$(BIN)/foretoken bench run $(MODEL)

# Needs an NVIDIA GPU, nvcc, cmake and ninja. What comes from the network lies in gpu-kit: for a machine without one,
# make it elsewhere (make gpu-kit FOR=3.12 for that machine's Python) and copy the folder into the checkout there.
GPU ?= gpu-bench
KIT := gpu-kit
FOR ?=
GPU_BIN := .venv-gpu/bin
LIBS = $(abspath $(GPU))/build/bin
# A Python that brings its own libstdc++ crashes in what the system's compiler built.
PRELOAD ?= $(wildcard /usr/lib/x86_64-linux-gnu/libstdc++.so.6)
WITH_CUDA = PYTHONPATH=$(GPU)/sources LLAMA_CPP_LIB_PATH=$(LIBS) LD_PRELOAD="$(PRELOAD) $(LIBS)/libabsent.so"

gpu-kit:  ## what bench-gpu needs from the network, for a machine without one: make gpu-kit FOR=3.12
	$(PYTHON) -m gpu.kit --out $(KIT) $(if $(FOR),--python $(FOR))

$(KIT)/complete:
	@$(MAKE) --no-print-directory gpu-kit

.venv-gpu/installed: $(KIT)/complete
	$(PYTHON) -m venv --clear .venv-gpu
	@echo "installing from $(KIT)"
	@$(GPU_BIN)/python -m pip install --disable-pip-version-check --quiet --no-index --no-deps $(KIT)/wheels/*.whl
	@$(GPU_BIN)/python -m pip install --disable-pip-version-check --quiet --no-index --no-deps --no-build-isolation --editable .
	@touch $@

bench-gpu: .venv-gpu/installed  ## true shapes with random weights on a GPU; ARGS="--models qwen3.5-27b --seconds 600"
	$(GPU_BIN)/python -m gpu.build --sdist $(KIT)/llama-cpp-python.tar.xz --folder $(GPU)
	$(WITH_CUDA) $(GPU_BIN)/python -m foretoken.bench.gpu --folder $(GPU) --out $(GPU)/gpu.json --server $(LIBS)/llama-server \
	  --vocabulary $(GPU)/sources/vendor/llama.cpp/models/ggml-vocab-qwen35.gguf $(ARGS)
	$(WITH_CUDA) $(GPU_BIN)/python -m foretoken.bench.gpu.report $(GPU)/gpu.json --chart $(GPU)/gpu.svg

bench-page: $(VENV)/installed  ## what it costs the engine to be watched; make bench-page ARGS="--seconds 120 --threads 2"
	$(BIN)/python -m tests.browser.cost $(ARGS)

screenshots: $(VENV)/installed chromium  ## the pictures of docs/dashboard.md, of the real page
	$(BIN)/python -m tests.browser.screenshots

train-smoke: | $(BIN)/python  ## the whole training recipe at toy size on a CPU
	$(PYTHON) -m venv .venv-train
	.venv-train/bin/python -m pip install --disable-pip-version-check -r train/requirements.txt
	cd train && ../.venv-train/bin/python smoke.py

clean:
	rm -rf $(VENV)
