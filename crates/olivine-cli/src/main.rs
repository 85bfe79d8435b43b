//! The olivine tool.

fn main() {}
