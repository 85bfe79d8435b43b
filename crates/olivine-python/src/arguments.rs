//! Numbers that calls take. A refusal names the argument, its value and the range.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::time::Duration;

/// How much of a value an error shows.
const SHOWN_MAX: usize = 80;

/// `timeout` in seconds, as Python has them. `None` sets none, and so does a number too large for a
/// duration, such as infinity.
pub(crate) fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value.is_none() {
        return Ok(None);
    }
    const RANGE: &str = "give seconds from 0, or None for as long as it takes";
    seconds(value, RANGE)
}

/// `timeout` of a call that has another form without one.
pub(crate) fn bound(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    const RANGE: &str = "give seconds from 0; the call without '_timeout' waits without a bound";
    seconds(value, RANGE)
}

/// `tag` of a message.
pub(crate) fn tag(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    const RANGE: &str = "give a whole number from 0 to 4294967295";
    whole("tag", value, RANGE)
}

/// `length` in bytes.
pub(crate) fn length(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole("length", value, RANGE)
}

/// `limit` of a call: how many messages it hands out.
pub(crate) fn limit(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole("limit", value, RANGE)
}

/// `limit`, or `None` for as many as the call likes.
pub(crate) fn limit_or_none(value: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if value.is_none() {
        return Ok(None);
    }
    const RANGE: &str = "give a whole number from 1 to 9223372036854775807, or None";
    whole("limit", value, RANGE).map(Some)
}

/// `count` of subscribers.
pub(crate) fn count(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole("count", value, RANGE)
}

/// The range of numbers that count bytes or messages.
const RANGE: &str = "give a whole number from 0 to 9223372036854775807";

fn whole<T: TryFrom<i64>>(name: &str, value: &Bound<'_, PyAny>, range: &str) -> PyResult<T> {
    let found: i64 = value
        .extract()
        .map_err(|error| refused(name, value, range, Some(&error)))?;
    T::try_from(found).map_err(|_| refused(name, value, range, None))
}

fn seconds(value: &Bound<'_, PyAny>, range: &str) -> PyResult<Option<Duration>> {
    let seconds: f64 = value
        .extract()
        .map_err(|error| refused("timeout", value, range, Some(&error)))?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(refused("timeout", value, range, None));
    }
    Ok(Duration::try_from_secs_f64(seconds).ok())
}

/// `name=value` is refused: of a wrong type as `error` says, else of a wrong value.
#[cold]
fn refused(name: &str, value: &Bound<'_, PyAny>, range: &str, error: Option<&PyErr>) -> PyErr {
    let py = value.py();
    let shown = match value.len() {
        // The text of all its elements takes long to make.
        Ok(length) if length > SHOWN_MAX => {
            let class = value.get_type().name();
            let class = class.map_or_else(|_| "object".to_owned(), |class| class.to_string());
            format!("({class} of length {length})")
        }
        // A number of very many digits has no text.
        _ => value.repr().map_or_else(
            |_| "(a number without a text)".to_owned(),
            |shown| shown.to_string(),
        ),
    };
    let shown: String = shown.chars().take(SHOWN_MAX).collect();
    let text = format!("{name}={shown}: {range}");
    match error {
        Some(error) if !error.is_instance_of::<PyOverflowError>(py) => PyTypeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
