//! Counts of recorders.

/// What a recorder did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStats {
    /// Messages recorded.
    pub messages: u64,
    /// Bytes of their frames, headers and padding included.
    pub frame_bytes: u64,
    /// Bytes written to files.
    pub file_bytes: u64,
    /// Blocks written, of any kind.
    pub blocks: u64,
    /// Number of syncs to the disk.
    pub syncs: u64,
    /// Files begun.
    pub files: u64,
    /// Frame bytes that were appended a second time and left out.
    pub repeated_bytes: u64,
    /// Frame bytes missing between runs of a lane: they were published while no recorder was
    /// attached.
    pub missed_bytes: u64,
}
