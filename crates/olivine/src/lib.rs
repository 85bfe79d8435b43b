//! Messages between programs: fast, nothing lost, survives any crash.
