//! Compiles what a rival has in another language.

fn main() {
    #[cfg(feature = "readerwriterqueue")]
    {
        println!("cargo:rerun-if-changed=readerwriterqueue.cpp");
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            // What handles exceptions is not inlined into Rust.
            .flag("-fno-exceptions")
            .opt_level(3)
            // Its checks of use by one thread at a time are assertions.
            .define("NDEBUG", None)
            .file("readerwriterqueue.cpp")
            .compile("readerwriterqueue");
    }
}
