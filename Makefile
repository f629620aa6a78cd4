# What people do with a checkout. Every target is a line or two: the work is in scripts/, conformance/ and xtask/.

.DEFAULT_GOAL := help
.PHONY: help setup run serve check test test-unit test-conformance test-interop test-lab test-vm test-full fuzz bench bench-peers bench-adapter clean

VOLUMES ?= disk=ram:1G scratch=file:target/scratch.img?size=1G none=null:1G

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## installs what every target needs (Debian packages, cargo-deny)
	@scripts/setup.sh test

run: ## shows it all in under a minute: sets up, builds, serves, writes by iSCSI, reads by NVMe/TCP, attaches, serves a folder, measures
	@scripts/setup.sh run
	cargo build --release -p cli
	@scripts/demo.py

serve: ## builds, and serves $VOLUMES on loopback until Ctrl-C
	@scripts/setup.sh run
	cargo build --release -p cli
	target/release/linerate serve --state target/state $(VOLUMES)

check: ## fmt, clippy, tidy, purity, deny, and whether docs/benchmarks.md is what its history yields
	@scripts/setup.sh tools
	cargo xtask check
	scripts/benchpage.py check

test: ## every suite; what CI runs
	@scripts/setup.sh test
	@scripts/suites.py unit conformance interop lab vm

test-unit: ## fmt, lints, tidy, cargo test
	@scripts/setup.sh tools
	@scripts/suites.py unit

test-conformance: ## libiscsi's suite, Wireshark's dissectors
	@scripts/setup.sh test
	@scripts/suites.py conformance

test-interop: ## QEMU's tools, libnfs' tools, kill -9
	@scripts/setup.sh test
	@scripts/suites.py interop

test-lab: ## the lab: what it builds, what it measures, its reports in Chromium
	@scripts/setup.sh test
	@scripts/suites.py lab

test-vm: ## Linux' own initiators in a virtual machine
	@scripts/setup.sh test
	@scripts/suites.py vm

test-full: ## everything, both kernels, long simulations, fuzzing: over an hour
	@scripts/setup.sh full
	@scripts/suites.py unit conformance interop lab live vm vm-6.1 vm-long vm-posix vm-verbs vm-hundred simulation
	@$(MAKE) fuzz

fuzz: ## every fuzz target for 60 s
	@scripts/setup.sh run
	fuzz/run.sh

bench: ## the lab's linerate.bench in pairs, then docs/benchmarks.md: against a bare loop, tgt and libiscsi; BENCH=--quick for depth 32 alone
	@scripts/setup.sh test
	cargo build --release -p cli
	cargo build --release -p reactor --example bareloop
	target/release/linerate lab run linerate.bench --runs target/bench --table $(BENCH); status=$$?; scripts/benchpage.py record target/bench && exit $$status

bench-peers: bench ## the same; all sizes, small packets, spinning, digests, RDMA in software, latency at half load, a second target core, NBD servers, NFS beside nfs-ganesha; then 1 to 1,000 connections, ten minutes for long turns, a client beside hostile peers, and one beside reloads
	@conformance/fio/build libiscsi
	set -e; for one in knee wire spin digests rdma tail cores nbd nfs; do target/release/linerate lab run linerate.$$one --runs target/bench --table $(BENCH); scripts/benchpage.py record target/bench; done
	scripts/metadata.py --results target/bench
	scripts/scale.py --results target/bench
	-scripts/stalls.py --results target/bench
	-scripts/hostile.py
	-scripts/pauses.py --results target/bench
	scripts/benchpage.py record target/bench

bench-adapter: ## the lab's linerate.adapter and linerate.shared-memory: initiators inside fio and in a software adapter, against libiscsi and qemu-storage-daemon
	@scripts/setup.sh test
	cargo build --release -p cli
	@conformance/fio/build libiscsi
	set -e; for one in adapter shared-memory; do target/release/linerate lab run linerate.$$one --runs target/bench --table $(BENCH); scripts/benchpage.py record target/bench; done

clean: ## removes what was built and cached
	rm -rf target .cache
