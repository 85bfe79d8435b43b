//! Gives the shared library its name for the dynamic linker.

fn main() {
    // A program linked against 0.1.x finds 0.1.y at run time, and no other: before 1.0 a minor
    // version may break.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libolivine.so.0.1");
    println!("cargo::rerun-if-changed=build.rs");
}
