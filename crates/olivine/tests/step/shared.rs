//! Whether an instruction has changed the channel's memory.

use crate::common::mapped::Mapped;
use crate::scene::Scene;

/// The channel's memory, as seen by a survivor, and what it was at the last change.
pub(crate) struct Shared {
    files: Vec<Mapped>,
    before: Vec<u64>,
}

impl Shared {
    pub(crate) fn new(scene: &Scene) -> Self {
        let mut shared = Self {
            files: Vec::new(),
            before: Vec::new(),
        };
        shared.map(scene);
        shared
    }

    /// Maps the files that exist: a system call may have made, resized or removed one.
    pub(crate) fn map(&mut self, scene: &Scene) {
        let files = scene.files();
        let has_bytes = |file: &std::fs::File| file.metadata().expect("its length").len() > 0;
        let files = files.iter().filter(|file| has_bytes(file));
        self.files = files
            .map(|file| Mapped::of(file, false).expect("shared memory"))
            .collect();
        self.keep();
    }

    /// The words of each file, to look at now. It is called after each instruction, so they are
    /// compared without a copy.
    fn words(&self) -> impl Iterator<Item = &[u64]> {
        self.files.iter().map(|file| {
            // SAFETY: mapped that long, until `file` is dropped. The only process that writes to
            // it is the child, which is stopped while these words are looked at.
            unsafe { std::slice::from_raw_parts(file.base(), file.words()) }
        })
    }

    fn keep(&mut self) {
        let mut kept = std::mem::take(&mut self.before);
        kept.clear();
        self.words().for_each(|words| kept.extend_from_slice(words));
        self.before = kept;
    }

    /// Whether it has changed since the last change.
    pub(crate) fn has_changed(&mut self) -> bool {
        let mut rest = self.before.as_slice();
        let is_same = self.words().all(|words| {
            let (before, behind) = rest.split_at(words.len());
            rest = behind;
            before == words
        });
        if !is_same {
            self.keep();
        }
        !is_same
    }
}
