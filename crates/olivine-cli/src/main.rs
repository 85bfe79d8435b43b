//! The program `olivine`.
//!
//! All of it is in the library of this package: the compiler starts on a library as soon as the
//! interfaces of its dependencies are known, but on a program only when they are built.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    olivine_cli::main()
}
