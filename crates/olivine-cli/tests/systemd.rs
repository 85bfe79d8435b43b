//! The unit of systemd in `docs/systemd`.

mod common;

use common::{TestFolder, skip};
use std::path::Path;
use std::process::Command;

#[test]
fn the_systemd_unit_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unit = root.join("docs/systemd/olivine-bridge.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    // The tool of this build is there; the place of an installed one need not be.
    let words = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let installed = words.unwrap().split(' ').next().unwrap();
    let here = unit.replace(installed, env!("CARGO_BIN_EXE_olivine"));
    let verify = |text: &str| {
        let folder = TestFolder::new();
        let path = folder.path().join("olivine-bridge.service");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new("systemd-analyze");
        let verified = command.args(["verify", "--man=no"]).arg(path).output();
        verified.map(|verified| String::from_utf8_lossy(&verified.stderr).into_owned())
    };
    match verify(&here) {
        Err(error) => skip(&format!("systemd-analyze: {error}")),
        Ok(said) => {
            assert_eq!(said, "");
            // It finds what systemd would ignore.
            let faulty = here.replace("RestartSec=", "RestartSecs=");
            assert!(verify(&faulty).unwrap().contains("RestartSecs"));
        }
    }
}
