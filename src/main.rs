//! The `ramsplit` binary.

fn main() {}
