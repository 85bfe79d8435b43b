//! A browser that is driven over a pipe, by the protocol of its developer tools.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any page needs on a busy machine; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(120);

/// One page in a browser with a separate profile.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    calls: u64,
    session: Option<String>,
    /// Events of the page that no call has looked at yet.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts `program` with its profile in `folder`. It reaches no host but this machine.
    pub(crate) fn start(program: &str, folder: &Path, name: &str) -> Self {
        let profile = folder.join(format!("driven-{name}"));
        let mut command = Command::new("timeout");
        // The pipe of the protocol is descriptors 3 and 4.
        command.args([
            "600",
            "sh",
            "-c",
            "exec \"$@\" 3<&0 4>&1 1>&2",
            "sh",
            program,
        ]);
        command.args([
            "--remote-debugging-pipe",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        ]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            to: child.stdin.take().unwrap(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
            calls: 0,
            session: None,
            events: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// The result of a call.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            if message["method"].is_string() {
                self.events.push(message);
            }
        }
    }

    /// The value of an expression in the page; an exception fails the test.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.call("Runtime.evaluate", &asked);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Opens an address, and waits until `ready` holds in it.
    pub(crate) fn open(&mut self, address: &str, ready: &str) {
        self.call("Page.navigate", &json!({ "url": address }));
        self.until(ready);
    }

    /// Waits until an expression is true. An exception is "not yet": the page may still load.
    pub(crate) fn until(&mut self, condition: &str) {
        let begun = Instant::now();
        let asked = json!({ "expression": format!("!!({condition})"), "returnByValue": true });
        while self.call("Runtime.evaluate", &asked)["result"]["value"] != true {
            assert!(begun.elapsed() < WATCHDOG, "waited in vain for {condition}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// The size of the window, and the reader's choice of colours.
    pub(crate) fn window(&mut self, width: u32, height: u32, colours: &str) {
        self.size(width.into(), height.into());
        let media = json!({
            "features": [{ "name": "prefers-color-scheme", "value": colours }],
        });
        self.call("Emulation.setEmulatedMedia", &media);
    }

    fn size(&mut self, width: u64, height: u64) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Writes a picture of the whole page, in a window that is as high: rows that are not on the
    /// screen are not painted.
    pub(crate) fn picture(&mut self, path: &Path) {
        let size = self.value("[innerWidth, document.documentElement.scrollHeight]");
        if let (Some(width), Some(height)) = (size[0].as_u64(), size[1].as_u64()) {
            self.size(width, height);
            self.value("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))");
        }
        let asked = json!({ "format": "png" });
        let taken = self.call("Page.captureScreenshot", &asked);
        let text = taken["data"].as_str().unwrap();
        let bytes = data_encoding::BASE64.decode(text.as_bytes()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// What the page complained about: exceptions, refused content, failed requests.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_bad = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown"
                || event["method"] == "Log.entryAdded"
                    && event["params"]["entry"]["level"] == "error"
        };
        self.events
            .iter()
            .filter(is_bad)
            .map(Value::to_string)
            .collect()
    }

    /// Addresses that were fetched.
    pub(crate) fn fetched(&self) -> Vec<String> {
        let sent = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        let sent = self.events.iter().filter(sent);
        sent.map(|event| {
            event["params"]["request"]["url"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The processes of the browser end with the pipe.
        let _ = self
            .to
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.child.wait();
    }
}
