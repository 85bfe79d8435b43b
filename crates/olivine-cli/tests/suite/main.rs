//! Tests that share a process: what they share is compiled once, and one program is linked. The
//! tool itself runs in processes of each test.
//!
//! Tests that are started by name, and the longest ones, are separate programs beside this folder.

mod awaited;
mod carry;
mod channels;
#[path = "../common/mod.rs"]
mod common;
mod containers;
mod crash;
#[path = "../common/grammar.rs"]
mod grammar;
mod interrupted;
mod journal;
mod load;
mod measure;
mod methods;
mod metrics;
mod options;
mod pipe;
mod refusals;
mod results;
mod serve;
mod serve_limits;
mod terminal;
mod top;
mod top_screen;
#[path = "../common/web.rs"]
mod web;
mod worst;
