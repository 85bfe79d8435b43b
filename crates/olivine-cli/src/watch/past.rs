//! What earlier samples said of channels.

use std::collections::HashMap;

/// Values by the name of a channel. Those of channels that a sample does not name are forgotten.
#[derive(Debug)]
pub(crate) struct Past<T> {
    channels: HashMap<String, One<T>>,
}

#[derive(Debug)]
struct One<T> {
    /// The newest sample names it.
    is_named: bool,
    value: T,
}

impl<T> Default for Past<T> {
    fn default() -> Self {
        Self {
            channels: HashMap::new(),
        }
    }
}

impl<T> Past<T> {
    /// The value of a channel that this sample names, a `new` one unless it is known and `fits`,
    /// and whether it is that of an earlier sample.
    pub(crate) fn of(
        &mut self,
        name: &str,
        fits: impl FnOnce(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> (&mut T, bool) {
        let known = self.channels.get(name);
        let is_known = known.is_some_and(|one| fits(&one.value));
        if !is_known {
            let one = One {
                is_named: true,
                value: new(),
            };
            self.channels.insert(name.to_owned(), one);
        }
        let Some(one) = self.channels.get_mut(name) else {
            unreachable!("it was there, or is now")
        };
        one.is_named = true;
        (&mut one.value, is_known)
    }

    /// Keeps what is known of a channel that this sample names and could not read.
    pub(crate) fn keep(&mut self, name: &str) {
        if let Some(one) = self.channels.get_mut(name) {
            one.is_named = true;
        }
    }

    /// The value of a channel.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.channels.get(name).map(|one| &one.value)
    }

    /// The sample is complete.
    pub(crate) fn forget_unnamed(&mut self) {
        self.channels
            .retain(|_, one| std::mem::take(&mut one.is_named));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_is_known_while_each_sample_names_it_and_it_fits() {
        let mut past = Past::default();
        assert_eq!(past.of("a", |_| true, || 1), (&mut 1, false));
        past.forget_unnamed();
        assert_eq!(past.of("a", |one| *one == 1, || 2), (&mut 1, true));
        past.forget_unnamed();
        past.keep("a");
        past.keep("b");
        past.forget_unnamed();
        assert_eq!((past.get("a"), past.get("b")), (Some(&1), None));
        assert_eq!(past.of("a", |one| *one == 2, || 2), (&mut 2, false));
        past.forget_unnamed();
        past.forget_unnamed();
        assert_eq!(past.get("a"), None);
    }
}
