//! Tells the compiler which interpreter the package is built for: `Py_GIL_DISABLED`.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
