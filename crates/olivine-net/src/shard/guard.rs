//! Calls of the handler, each of which may panic: the panic ends one connection, not the shard.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{Shard, run::Runner};
use crate::{
    error::CloseReason,
    handler::{ConnectionId, Handler},
};

impl<H: Handler> Runner<H> {
    /// Calls the handler about a connection, or about none; `None` if it panicked.
    ///
    /// The shard is whole after a panic: its methods never call the handler, so no panic of the
    /// handler interrupts one.
    pub(super) fn tell<R>(
        &mut self,
        id: Option<ConnectionId>,
        call: impl FnOnce(&mut H, &mut Shard<H::Message>) -> R,
    ) -> Option<R> {
        let (handler, shard) = (&mut self.handler, &mut self.shard);
        match caught(|| call(handler, shard)) {
            Ok(result) => Some(result),
            Err(message) => {
                self.panicked(id, &message);
                None
            }
        }
    }

    #[cold]
    fn panicked(&mut self, id: Option<ConnectionId>, message: &str) {
        self.shard.count_up().panics.add(1);
        let (handler, shard) = (&mut self.handler, &mut self.shard);
        if caught(|| handler.on_panic(shard, id, message)).is_err() {
            self.shard.count_up().panics.add(1);
        }
        if let Some(id) = id
            && self.shard.find(id).is_some()
        {
            self.shard.detach(id.slot, CloseReason::Panicked, true);
        }
    }
}

/// Calls code that may panic; the error is the text of the panic.
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(message)
}

/// The text of a panic. Dropping its payload may panic again; that panic is ignored.
fn message(payload: Box<dyn Any + Send>) -> String {
    let text = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a text".to_owned(),
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // The payload is leaked.
        let _leaked = std::mem::ManuallyDrop::new(second);
    }
    text
}
