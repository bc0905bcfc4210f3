# The two commands of a fresh clone are `make demo` and `make test`; each does the set-up that it needs first.
# Everything that is more than one line is Rust: see xtask.

RUST_MINIMUM := 1.95
export PATH := $(HOME)/.cargo/bin:$(PATH)
XTASK := cargo run -q -p xtask --

.PHONY: help demo test build dist dist-test bench fuzz toolchain

help:
	@echo "make demo    build xdfs, then send a real file between a server and a client on this machine"
	@echo "make test    install what the tests need (Debian), then run all that CI runs"
	@echo "make build   build the release binary, target/release/xdfs"
	@echo "make dist    build the static program and the packages (Debian, Fedora), into target/dist"
	@echo "make dist-test  the same, then install and use each of them, and run the command's tests"
	@echo "make bench   install the programs to compare with (Debian), then measure side by side"
	@echo "make fuzz    feed the decoders made-up input until stopped"

demo: build
	cargo run -q --release -p xdfs -- demo

# A shell script that starts this in the background has it ignore Ctrl-C, and tests send that to programs.
test: toolchain
	@$(XTASK) setup
	@env --default-signal=HUP,INT,QUIT $(XTASK) ci

build: toolchain
	cargo build --release -p xdfs

dist: toolchain
	@$(XTASK) setup
	@$(XTASK) dist

dist-test: toolchain
	@$(XTASK) setup
	@$(XTASK) long dist

bench: build
	cargo build --release -p xdfs-bench --features passthrough
	cargo run -q --release -p xdfs-bench --features passthrough -- --install

fuzz: toolchain
	@$(XTASK) fuzz

# A Rust toolchain cannot be had from Debian 12 (it is too old there), so it is asked for and not installed. The
# linker is installed here and not by xtask, since xtask is linked with it.
toolchain:
	@if ! command -v cargo >/dev/null; then \
	  echo "cargo is missing: install Rust $(RUST_MINIMUM) or newer, see https://rustup.rs, then run make again" >&2; exit 1; fi
	@found=$$(cargo --version | cut -d' ' -f2); \
	if [ "$$(printf '%s\n' $(RUST_MINIMUM) $$found | sort -V | head -n 1)" != $(RUST_MINIMUM) ]; then \
	  echo "cargo $$found is too old: Rust $(RUST_MINIMUM) or newer is needed, for instance by 'rustup update stable'" >&2; exit 1; fi
	@if ! command -v cc >/dev/null; then \
	  echo "set-up: installing build-essential (a C compiler and linker, which Rust links with)"; \
	  if ! command -v apt-get >/dev/null; then echo "no apt-get here: install a C compiler by hand" >&2; exit 1; fi; \
	  if [ "$$(id -u)" = 0 ]; then root=; else root=sudo; fi; \
	  $$root apt-get update -q && $$root apt-get install -y -q --no-install-recommends build-essential; fi
