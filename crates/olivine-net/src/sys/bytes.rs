//! Classes of sixteen bytes at once, where the processor can: marks of the bytes that may end a
//! run, the lowest bit for the first byte. `http/scan.rs` uses them. And ASCII as text.

/// Whether there are vectors; the functions mark every byte where there are none.
pub(crate) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// Text that is ASCII, or another text; an empty one for all else.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> &str {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return unsafe { std::str::from_utf8_unchecked(bytes) };
    }
    std::str::from_utf8(bytes).unwrap_or("")
}

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident)+) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(bytes: &[u8; 16]) -> u32 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has SSE2.
            unsafe {
                sse2::$name(bytes)
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                let _ = bytes;
                0xffff
            }
        }
    )+};
}

classes! {
    /// All but letters, digits, `-` and `.`.
    letters
    /// Spaces and below, `#`, and 0x7f and above.
    target
    /// As [`target`], and `?`.
    path
    /// Control bytes.
    value
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set_epi64x, _mm_set1_epi8,
    };

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(bytes: &[u8; 16]) -> __m128i {
        let (low, high) = bytes.split_at(8);
        let half = |half: &[u8]| half.first_chunk().map_or(0, |it| i64::from_le_bytes(*it));
        // One load of both.
        _mm_set_epi64x(half(high), half(low))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn marks(bytes: __m128i) -> u32 {
        _mm_movemask_epi8(bytes).cast_unsigned()
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn each(byte: u8) -> __m128i {
        _mm_set1_epi8(byte.cast_signed())
    }

    /// Whether bytes are in `first..=last`.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn between(bytes: __m128i, first: u8, last: u8) -> __m128i {
        // Moved so that the range begins with the least of all signed numbers.
        let moved = _mm_add_epi8(bytes, each(0x80_u8.wrapping_sub(first)));
        _mm_cmplt_epi8(moved, each((last - first + 1) ^ 0x80))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn either(one: __m128i, other: __m128i) -> __m128i {
        _mm_or_si128(one, other)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn letters(bytes: &[u8; 16]) -> u32 {
        let bytes = load(bytes);
        let letter = between(either(bytes, each(0x20)), b'a', b'z');
        let digit = between(bytes, b'0', b'9');
        let other = between(bytes, b'-', b'.');
        marks(either(either(letter, digit), other)) ^ 0xffff
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn target(bytes: &[u8; 16]) -> u32 {
        marks(others(load(bytes)))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn path(bytes: &[u8; 16]) -> u32 {
        let bytes = load(bytes);
        marks(either(others(bytes), _mm_cmpeq_epi8(bytes, each(b'?'))))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn others(bytes: __m128i) -> __m128i {
        // Bytes above 0x7f are below zero.
        let low = _mm_cmplt_epi8(bytes, each(0x21));
        let hash = _mm_cmpeq_epi8(bytes, each(b'#'));
        either(either(low, hash), _mm_cmpeq_epi8(bytes, each(0x7f)))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn value(bytes: &[u8; 16]) -> u32 {
        let bytes = load(bytes);
        let control = between(bytes, 0, 0x1f);
        marks(either(control, _mm_cmpeq_epi8(bytes, each(0x7f))))
    }
}
