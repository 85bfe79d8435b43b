//! Installing the library for C and C++, for compilers, CMake's `find_package` and `pkg-config`.
//! `cargo xtask capi` and `tests/programs` use this file.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Copies the library of a build, and the files of the crate's folder `source`, below `prefix`:
/// `include`, `lib`, `lib/pkgconfig`, `lib/cmake`. Returns the number of files.
pub(crate) fn place(source: &Path, built: &Path, prefix: &Path) -> io::Result<usize> {
    let lib = prefix.join("lib");
    for folder in ["include", "lib/pkgconfig", "lib/cmake/olivine"] {
        fs::create_dir_all(prefix.join(folder))?;
    }
    let copy = |from: &Path, to: &Path| {
        fs::copy(from, to).map_err(|error| {
            let (from, to) = (from.display(), to.display());
            io::Error::other(format!("{from} to {to}: {error}"))
        })
    };
    let headers = [
        "include/olivine.h",
        "include/olivine.hpp",
        "include/olivine_handle.hpp",
        "include/olivine_typed.hpp",
        "include/olivine_values.hpp",
    ];
    for header in headers {
        copy(&source.join(header), &prefix.join(header))?;
    }
    let shared = format!("libolivine.so.{VERSION}");
    let libraries = [
        ("libolivine_capi.so", shared.as_str()),
        ("libolivine_capi.a", "libolivine.a"),
    ];
    for (from, to) in libraries {
        copy(&built.join(from), &lib.join(to))?;
    }
    // The names for linking and for the loader: the build script sets the soname.
    let minor = VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor);
    let links = ["libolivine.so".to_owned(), format!("libolivine.so.{minor}")];
    for link in links.iter().map(|link| lib.join(link)) {
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(&shared, &link)?;
    }
    // Descriptions for pkg-config and CMake.
    let descriptions = [
        ("olivine.pc.in", "pkgconfig/olivine.pc"),
        (
            "cmake/olivine-config.cmake.in",
            "cmake/olivine/olivine-config.cmake",
        ),
        (
            "cmake/olivine-config-version.cmake.in",
            "cmake/olivine/olivine-config-version.cmake",
        ),
    ];
    for (from, to) in descriptions {
        let text = fs::read_to_string(source.join(from))?;
        let text = text.replace("@version@", VERSION).replace("@minor@", minor);
        fs::write(lib.join(to), text)?;
    }
    Ok(headers.len() + libraries.len() + links.len() + descriptions.len())
}
