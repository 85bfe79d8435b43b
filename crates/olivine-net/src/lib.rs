//! Thread-per-core network engine.
