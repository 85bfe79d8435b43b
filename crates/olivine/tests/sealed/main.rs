//! The sealed mode: `shm+fd://` between honest peers, and every attack on it that a peer of one
//! side can make.
//!
//! An attacker is another process that speaks the socket's protocol by hand ([`raw`]), so it can do
//! what the library never does. At the same time its victim serves honest peers, which must lose
//! nothing. `OLIVINE_HOSTILE_MS` is the length of an attack without a natural end, `OLIVINE_SEED`
//! repeats its choices.

#![cfg(all(not(loom), target_os = "linux"))]

mod abuse;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod publishers;
mod raw;
mod stage;
mod subscribers;

/// The other processes: see [`subscribers`] and [`publishers`].
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let path = std::env::var("OLIVINE_DEATH_PATH").expect("set by the parent");
    let path = std::path::Path::new(&path);
    match role.split_once('.') {
        Some(("subscriber", attack)) => subscribers::play(attack, path),
        Some(("publisher", attack)) => publishers::play(attack, path),
        Some(("end", part)) => ends::play(part, path),
        _ => panic!("there is no role '{role}'"),
    }
}
