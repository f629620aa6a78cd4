#!/usr/bin/env bash
# Lets the fuzzer look at every target for LINERATE_FUZZ_SECONDS (60) each, beginning from its corpus. What breaks a target is kept in
# target/fuzz/TARGET/; put it into fuzz/corpus/TARGET/ once it is mended. Usage: fuzz/run.sh [TARGET …]
set -eu
cd "$(dirname "$0")/.."
seconds=${LINERATE_FUZZ_SECONDS:-60}
out=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions=on"
RUSTFLAGS="$flags" cargo build --release --quiet -p fuzz --features fuzzer --bin fuzzer --target "$host" --target-dir "$out/build"
fuzzer=$out/build/$host/release/fuzzer
targets=${*:-$(ls fuzz/corpus)}
passed=0 failed=0
for target in $targets; do
  work=$out/$target
  mkdir -p "$work/corpus"
  echo "== $target, $seconds s"
  if LINERATE_FUZZ_TARGET=$target "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
      -artifact_prefix="$work/" "$work/corpus" "fuzz/corpus/$target" > "$work/log" 2>&1; then
    passed=$((passed + 1))
    grep -E 'stat::number_of_executed_units|DONE' "$work/log" | tail -n 2
  else
    failed=$((failed + 1))
    echo "$target broke; the end of $work/log:"
    tail -n 25 "$work/log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
