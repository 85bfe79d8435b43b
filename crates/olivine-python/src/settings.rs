//! `Publisher(uri, **keys)`: the keywords are the keys of URIs. And what the link behind a channel
//! elsewhere says.

use crate::errors::{of_open, of_uri};
use crate::stated::Stated;
use crate::views::objects;
use crate::waits::aside;
use olivine::{Config, End, Key, LinkStatus, MessageType, OpenError, Scheme};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyString};

/// What a constructor is called with: a URI, the type that the program states, and keywords.
pub(crate) struct Opening {
    config: Config,
    stated: Option<MessageType>,
}

impl Opening {
    pub(crate) fn read(
        uri: &str,
        stated: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = config(uri, keys)?;
        let stated = stated.map(message_type).transpose()?;
        Ok(Self { config, stated })
    }

    /// The type that the program states, to compare arrays with.
    pub(crate) fn stated(&self) -> Option<Stated> {
        self.stated.as_ref().map(Stated::new)
    }

    /// Opens an end; Ctrl-C ends the wait.
    pub(crate) fn open<T: Send + 'static>(
        self,
        py: Python<'_>,
        of_bytes: fn(&Config) -> Result<T, OpenError>,
        of_type: fn(&Config, &MessageType) -> Result<T, OpenError>,
    ) -> PyResult<T> {
        let opened = aside(py, "opening", move || match self.stated {
            Some(stated) => of_type(&self.config, &stated),
            None => of_bytes(&self.config),
        })?;
        opened.map_err(|error| of_open(py, &error))
    }
}

/// The settings that a URI and keywords give. A key may end in `_`, for `from_`; what is `None` is
/// left out.
fn config(uri: &str, keys: Option<&Bound<'_, PyDict>>) -> PyResult<Config> {
    let mut pairs = Vec::new();
    for (key, value) in keys.into_iter().flatten() {
        if value.is_none() {
            continue;
        }
        let key: String = key.extract()?;
        let key = key.strip_suffix('_').unwrap_or(&key).to_owned();
        let value = text(&key, &value)?;
        pairs.push((key, value));
    }
    let pairs = pairs.iter().map(|(key, value)| (&**key, &**value));
    Config::parse_with(uri, pairs).map_err(|error| of_uri(&error))
}

/// The type that a program states: its name, and what has a size, an alignment and fields, a type
/// of numpy or a structure of ctypes.
fn message_type(stated: &Bound<'_, PyAny>) -> PyResult<MessageType> {
    let py = stated.py();
    let Ok((name, kind)) = stated.extract::<(String, Bound<'_, PyAny>)>() else {
        return Err(PyTypeError::new_err(
            "type is not (name, kind): give a name of 1 to 64 bytes, and a dtype of numpy or a \
             structure of ctypes",
        ));
    };
    let fields = py.import("olivine._fields")?;
    let found = fields.call_method1("stated", (kind,))?;
    if let Ok(field) = found.extract::<String>() {
        return Err(objects(&field));
    }
    let (size, align, fields) = found.extract::<(usize, usize, String)>()?;
    MessageType::new(&name, size, align)
        .and_then(|stated| stated.with_fields(&fields))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// What the settings are: every key of URIs, or `key` alone, with values and default.
///
/// The text is for people: `print(olivine.settings())`. KeyError names an unknown key.
#[pyfunction]
#[pyo3(signature = (key = None))]
pub(crate) fn settings(key: Option<&str>) -> PyResult<String> {
    let Some(wanted) = key else {
        return Ok(Config::keys().map(about).collect::<Vec<_>>().join("\n"));
    };
    let name = wanted.strip_suffix('_').unwrap_or(wanted);
    let found = Config::keys().find(|key| key.name() == name);
    found.map(about).ok_or_else(|| {
        PyKeyError::new_err(format!(
            "there is no setting {wanted:?}: olivine.settings() lists all of them"
        ))
    })
}

/// What a key does.
fn about(key: &Key) -> String {
    let schemes = if key.schemes() == Scheme::ALL {
        "every scheme".to_owned()
    } else {
        let words = key.schemes().iter().map(|scheme| scheme.word());
        words
            .map(|word| format!("{word}://"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let end = match key.end() {
        End::Publisher => "publishers of ",
        End::Subscriber => "subscribers of ",
        _ => "",
    };
    let mut text = format!(
        "{}={}\n    Values: {}. Default: {}. For {end}{schemes}.\n",
        key.name(),
        key.value(),
        key.rule(),
        key.default(),
    );
    for line in key.doc() {
        text.push_str(if line.is_empty() { "" } else { "    " });
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// A value as a URI has it.
fn text(key: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyString>() {
        return value.extract();
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(if value.is_truthy()? { "yes" } else { "no" }.to_owned());
    }
    if value.is_instance_of::<PyInt>() {
        // Permission bits are numbers in Python (0o660), and octal digits in a URI.
        if key == "mode"
            && let Ok(bits) = value.extract::<u32>()
        {
            return Ok(format!("{bits:04o}"));
        }
        return Ok(value.str()?.to_string());
    }
    if value.hasattr("__fspath__")? {
        return value.call_method0("__fspath__")?.extract();
    }
    Err(PyTypeError::new_err(format!(
        "{key}={}: expected text as in a URI, a whole number, True or False, or a path",
        value.repr()?
    )))
}

/// What a link is doing, by name.
pub(crate) fn link<'py>(py: Python<'py>, status: &LinkStatus) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("stage", status.stage.word())?;
    dict.set_item("note", &status.note)?;
    dict.set_item("address", &status.address)?;
    dict.set_item("peers", status.peers)?;
    dict.set_item("connections", status.connections)?;
    dict.set_item("failures", status.failures)?;
    dict.set_item("refusals", status.refusals)?;
    dict.set_item("abandoned", status.abandoned)?;
    dict.set_item("undelivered", status.undelivered)?;
    dict.set_item("messages", status.messages)?;
    dict.set_item("bytes", status.bytes)?;
    dict.set_item("acknowledged_bytes", status.acknowledged_bytes)?;
    dict.set_item("journal_position", status.journal_position)?;
    Ok(dict)
}
