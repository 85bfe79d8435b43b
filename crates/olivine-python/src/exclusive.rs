//! What one thread uses at a time: another thread is refused and does not wait.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use pyo3::Python;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread uses at a time, also while that thread has released the interpreter.
///
/// It is taken and given back while the interpreter is held. So its lock orders both, and no atomic
/// instruction is needed; interpreters without such a lock need one.
pub(crate) struct Exclusive<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, unless it is in use.
    #[inline]
    pub(crate) fn take<'a>(&'a self, _: Python<'a>) -> Option<Taken<'a, T>> {
        if self.was_taken() {
            return None;
        }
        Some(Taken {
            exclusive: self,
            _held: PhantomData,
            _interpreter: PhantomData,
        })
    }

    /// Takes it; whether it was taken before.
    #[inline]
    fn was_taken(&self) -> bool {
        if cfg!(Py_GIL_DISABLED) {
            // Acquire: what the thread before wrote; pairs with the release below.
            return self.is_taken.swap(true, Ordering::Acquire);
        }
        // Relaxed: the interpreter's lock lets one thread at a time come here, and orders them.
        let was_taken = self.is_taken.load(Ordering::Relaxed);
        self.is_taken.store(true, Ordering::Relaxed);
        was_taken
    }

    /// The value, where there is no other reference.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Gives the value back when it is dropped, in the thread that took it, with the interpreter.
pub(crate) struct Taken<'a, T> {
    exclusive: &'a Exclusive<T>,
    _held: PhantomData<Python<'a>>,
    /// Stays in its thread.
    _interpreter: PhantomData<*const ()>,
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: taken, so that there is no other reference.
        unsafe { &*self.exclusive.value.get() }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.exclusive.value.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let order = if cfg!(Py_GIL_DISABLED) {
            Ordering::Release
        } else {
            // The interpreter's lock orders.
            Ordering::Relaxed
        };
        self.exclusive.is_taken.store(false, order);
    }
}
