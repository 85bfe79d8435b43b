//! Benchmark scenarios, statistics and reports.
