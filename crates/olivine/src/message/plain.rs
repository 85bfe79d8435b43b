//! The fields of a Rust structure: what [`plain!`](crate::plain) is made of.

use super::fields::{Field, FieldKind};

/// A Rust type that a field can have: a number, or an array of numbers. No other crate implements
/// it.
pub trait FieldType: sealed::Sealed {
    /// What the field holds.
    const KIND: FieldKind;
    /// Number of values of an array; `None` for a single value.
    const COUNT: Option<usize>;
}

/// What other crates cannot implement.
mod sealed {
    #[allow(unnameable_types, reason = "so no other crate implements it")]
    pub trait Sealed {}
}

macro_rules! field_types {
    ($($kind:ident $type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        impl FieldType for $type {
            const KIND: FieldKind = FieldKind::$kind;
            const COUNT: Option<usize> = None;
        }
        impl<const N: usize> sealed::Sealed for [$type; N] {}
        impl<const N: usize> FieldType for [$type; N] {
            const KIND: FieldKind = FieldKind::$kind;
            const COUNT: Option<usize> = Some(N);
        }
    )*};
}

field_types!(
    U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F32 f32, F64 f64
);

/// The field of a structure that `of` returns. For [`plain!`](crate::plain).
#[doc(hidden)]
pub fn field_of<S, F: FieldType>(name: &str, offset: usize, of: fn(&S) -> &F) -> Field {
    const {
        assert!(
            !matches!(F::COUNT, Some(0)),
            "an array without values is not a field: leave it out"
        );
    }
    let _ = of;
    let name = name.trim_start_matches("r#").to_owned();
    Field::of_structure(name, F::KIND, F::COUNT, offset)
}

/// The same for text: bytes. For [`plain!`](crate::plain).
#[doc(hidden)]
pub fn text_of<S, const N: usize>(name: &str, offset: usize, of: fn(&S) -> &[u8; N]) -> Field {
    let bytes = field_of(name, offset, of);
    Field::of_structure(bytes.name().to_owned(), FieldKind::Text, Some(N), offset)
}

/// Implements [`Plain`](crate::Plain) for a structure, with the name of the type and its fields.
///
/// A channel stores the fields. An opener whose fields differ is refused, with the first field that
/// differs, and `olivine sub --out json` prints them. A field is a number or an array of numbers,
/// or with `as text` an array of `u8` that holds text. Fields that are left out are padding. A name
/// has at most 64 bytes, and is given once: see [`MessageType::of`](crate::MessageType::of).
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote { bid: i64, ask: i64, symbol: [u8; 8] }
///
/// olivine::plain!(Quote, "quote v1", [bid, ask, symbol as text]);
///
/// let quote = olivine::MessageType::of::<Quote>();
/// assert_eq!(quote.fields().to_string(), "bid i64, ask i64, symbol text[8]");
/// ```
#[macro_export]
macro_rules! plain {
    ($type:ty, $name:expr, [$($field:ident $(as $kind:ident)?),+ $(,)?]) => {
        impl $crate::Plain for $type {
            const TYPE_NAME: &'static str = $name;

            fn fields() -> $crate::Fields {
                $crate::Fields::of_structure(::std::vec![$(
                    $crate::plain!(@field $type, $field $($kind)?)
                ),+])
            }
        }
    };
    (@field $type:ty, $field:ident) => {
        $crate::plain!(@call field_of, $type, $field)
    };
    (@field $type:ty, $field:ident text) => {
        $crate::plain!(@call text_of, $type, $field)
    };
    (@field $type:ty, $field:ident $kind:ident) => {
        ::core::compile_error!(::core::concat!(
            "'", ::core::stringify!($field), " as ", ::core::stringify!($kind),
            "': write 'as text', or only the name of the field"
        ))
    };
    (@call $function:ident, $type:ty, $field:ident) => {
        $crate::$function(
            ::core::stringify!($field),
            ::core::mem::offset_of!($type, $field),
            |value: &$type| &value.$field,
        )
    };
}

/// Structures that `plain!` refuses. Each differs in one place from a structure that it takes.
///
/// ```
/// # use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote { bid: i64, symbol: [u8; 8] }
/// olivine::plain!(Quote, "quote v1", [bid, symbol as text]);
/// olivine::MessageType::of::<Quote>();
/// ```
///
/// A kind of text that does not exist, but is a method:
///
/// ```compile_fail
/// # use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote { bid: i64, symbol: [u8; 8] }
/// olivine::plain!(Quote, "quote v1", [bid, symbol as clone]);
/// olivine::MessageType::of::<Quote>();
/// ```
///
/// A number as text:
///
/// ```compile_fail,E0308
/// # use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote { bid: i64, symbol: [u8; 8] }
/// olivine::plain!(Quote, "quote v1", [bid as text, symbol as text]);
/// olivine::MessageType::of::<Quote>();
/// ```
///
/// No values:
///
/// ```compile_fail,E0080
/// # use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote { bid: i64, symbol: [u8; 0] }
/// olivine::plain!(Quote, "quote v1", [bid, symbol as text]);
/// olivine::MessageType::of::<Quote>();
/// ```
///
/// A field of a type of another crate:
///
/// ```compile_fail,E0277
/// struct Price;
/// impl olivine::FieldType for Price {
///     const KIND: olivine::FieldKind = olivine::FieldKind::I64;
///     const COUNT: Option<usize> = None;
/// }
/// ```
#[cfg(doctest)]
struct Refused;
