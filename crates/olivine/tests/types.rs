//! Types of messages with their fields: which of them a channel stores and compares.

#![cfg(not(loom))]

mod common;

use common::TestFolder;
use olivine::{Config, MessageType, OpenError, Publisher, Subscriber};

#[test]
fn type_with_another_field_is_refused_by_the_name_of_the_field() {
    let place = TestFolder::new();
    let stated = |fields: &str| {
        let stated = MessageType::new("trade v1", 24, 8).unwrap();
        stated.with_fields(fields).unwrap()
    };
    let config = |name| Config::parse(&place.uri(name, "")).unwrap();
    let fields = "price i64, side u8, symbol text[8], size u16 @22";
    for (name, first) in [("of-publisher", true), ("of-subscriber", false)] {
        let config = config(name);
        let early = Subscriber::open_with(&config).unwrap();
        assert!(early.fields().is_empty());
        let publisher = first.then(|| Publisher::open_for(&config, &stated(fields)).unwrap());
        let subscriber = Subscriber::open_for(&config, &stated(fields)).unwrap();
        let publisher =
            publisher.unwrap_or_else(|| Publisher::open_for(&config, &stated(fields)).unwrap());
        for other in [
            Subscriber::open_for(&config, &stated("price i64, side i8")).map(|_| ()),
            Publisher::open_for(&config, &stated("price i64, side i8")).map(|_| ()),
        ] {
            let Err(OpenError::Type { asked, found, .. }) = other else {
                panic!("{other:?}");
            };
            assert_eq!(asked, "trade v1 with 'side i8' at byte 8");
            assert_eq!(found, "trade v1 with 'side u8' at byte 8");
        }
        // Without fields nothing is compared, and bytes are read by their fields.
        Publisher::open_for(&config, &stated("")).unwrap();
        let bytes = Subscriber::open_with(&config).unwrap();
        for subscriber in [&early, &bytes, &subscriber] {
            assert_eq!(subscriber.fields().to_string(), fields, "{name}");
        }
        drop(publisher);
    }
    // The first that states them, also behind others.
    let config = config("later");
    let first = Publisher::open_for(&config, &stated("")).unwrap();
    assert!(Subscriber::open_with(&config).unwrap().fields().is_empty());
    let long = (0..200).map(|n| format!("field_{n} u8 @{n}"));
    let long = MessageType::new("trade v1", 24, 8).map(|stated| {
        assert!(stated.clone().with_fields("more u8 @24").is_err());
        stated.with_fields(&long.take(24).collect::<Vec<_>>().join(", "))
    });
    Subscriber::open_for(&config, &long.unwrap().unwrap()).unwrap();
    let found = Subscriber::open_with(&config).unwrap().fields();
    assert_eq!(found.iter().len(), 24);
    drop(first);
}

#[test]
fn fields_of_a_structure_travel_through_memory_of_a_socket() {
    let place = TestFolder::new();
    let uri = format!("shm+fd://{}", place.file("socket").display());
    let _publisher = Publisher::<Trade>::typed(&uri).unwrap();
    let other = MessageType::new("trade v1", 16, 8).unwrap();
    let other = other.with_fields("price i64, size u32").unwrap();
    let refused = Subscriber::open_for(&Config::parse(&uri).unwrap(), &other).unwrap_err();
    assert!(
        refused.to_string().contains("'size u64' at byte 8"),
        "{refused}"
    );
    let opened = Subscriber::open(&uri).unwrap();
    assert_eq!(opened.fields().to_string(), "price i64, size u64");
}

#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
#[repr(C)]
struct Trade {
    price: i64,
    size: u64,
}

olivine::plain!(Trade, "trade v1", [size, price]);

/// Types whose fields no other program could read.
mod unreadable {
    use super::*;
    use olivine::{Fields, Plain};
    use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    struct Behind {
        value: u64,
    }

    impl Plain for Behind {
        const TYPE_NAME: &'static str = "behind v1";

        fn fields() -> Fields {
            "value u64, more u64 @9".parse().unwrap()
        }
    }

    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    struct Twice {
        value: u64,
    }

    olivine::plain!(Twice, "twice v1", [value, value]);

    #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    struct Long {
        a_field_with_a_name_that_is_longer_than_the_text_of_a_field_may_be: u64,
    }

    olivine::plain!(
        Long,
        "long v1",
        [a_field_with_a_name_that_is_longer_than_the_text_of_a_field_may_be]
    );

    fn refused<T: Plain>() -> String {
        let panic = std::panic::catch_unwind(MessageType::of::<T>).unwrap_err();
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn fields_that_cannot_be_read_back_are_refused_by_name() {
        let behind = "type 'behind v1': field 'more u64': it ends behind the value";
        assert_eq!(refused::<Behind>(), behind);
        let twice = "type 'twice v1': field 'value u64 @0': another field has this name";
        assert_eq!(refused::<Twice>(), twice);
        let long = refused::<Long>();
        assert!(
            long.starts_with("type 'long v1': field 'a_field_"),
            "{long}"
        );
        assert!(long.ends_with("a name has at most 64 bytes"), "{long}");
    }
}
