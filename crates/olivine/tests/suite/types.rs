//! Types of messages with their fields: which of them a channel stores and compares.

use crate::common::TestFolder;
use crate::common::planted::panic_of;
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
            assert_eq!(asked, "trade v1 (side i8 at byte 8)");
            assert_eq!(found, "trade v1 (side u8 at byte 8)");
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
        refused.to_string().contains("(size u64 at byte 8)"),
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

/// A type of 96 bytes with these fields.
fn trade(fields: &str) -> MessageType {
    let stated = MessageType::new("trade v1", 96, 8).unwrap();
    stated.with_fields(fields).unwrap()
}

/// One participant lives, and knows no type. A publisher fails after it has fixed the shape.
#[test]
fn fields_of_a_publisher_that_failed_do_not_become_those_of_the_next_one() {
    let place = TestFolder::new();
    let config = Config::parse(&place.uri("failed", "")).unwrap();
    let subscriber = Subscriber::open_with(&config).unwrap();
    let in_the_way = place.channel("failed").join("lane-0");
    std::fs::create_dir(&in_the_way).unwrap();
    let failed = Publisher::open_for(&config, &trade("price i64")).unwrap_err();
    assert!(matches!(failed, OpenError::NotAChannel { .. }), "{failed}");
    assert!(subscriber.fields().is_empty(), "{}", subscriber.fields());
    std::fs::remove_dir(&in_the_way).unwrap();
    let _next = Publisher::open_for(&config, &trade("price f64, size u32")).unwrap();
    assert_eq!(subscriber.fields().to_string(), "price f64, size u32");
}

#[test]
fn an_opener_that_finds_no_room_stores_no_fields() {
    let place = TestFolder::new();
    let uri = place.uri("full", "publishers_max=1&subscribers_max=1");
    let config = Config::parse(&uri).unwrap();
    let _publisher = Publisher::open_for(&config, &trade("")).unwrap();
    let subscriber = Subscriber::open_with(&config).unwrap();
    for (full, what) in [
        (
            Publisher::open_for(&config, &trade("price i64")).map(|_| ()),
            "no lane left",
        ),
        (
            Subscriber::open_for(&config, &trade("price i64")).map(|_| ()),
            "subscribers_max=1",
        ),
    ] {
        let full = full.unwrap_err().to_string();
        assert!(full.contains(what), "{full}");
        assert!(subscriber.fields().is_empty(), "{}", subscriber.fields());
    }
    drop(subscriber);
    let subscriber = Subscriber::open_for(&config, &trade("price f64")).unwrap();
    assert_eq!(subscriber.fields().to_string(), "price f64");
}

/// Fields whose text has `bytes` bytes, and whose last one is of this kind.
fn long_fields(bytes: usize, last: &str) -> String {
    let mut names: Vec<_> = (0..90).map(|n| format!("n{n:04} u8")).collect();
    names.push(format!("last {last}"));
    let missing = bytes - names.join(", ").len();
    names[0].insert_str(1, &"0".repeat(missing.min(50)));
    names[1].insert_str(1, &"0".repeat(missing.saturating_sub(50)));
    let text = names.join(", ");
    assert_eq!(text.len(), bytes);
    text
}

#[test]
fn fields_of_more_than_1008_bytes_are_neither_stored_nor_compared() {
    let place = TestFolder::new();
    for (bytes, is_stored) in [(1_008, true), (1_009, false)] {
        let config = Config::parse(&place.uri(&format!("of-{bytes}"), "")).unwrap();
        let long = trade(&long_fields(bytes, "u8"));
        let publisher = Publisher::open_for(&config, &long).unwrap();
        let subscriber = Subscriber::open_with(&config).unwrap();
        let stored = subscriber.fields();
        assert_eq!(!stored.is_empty(), is_stored);
        assert!(stored.is_empty() || stored == *long.fields());
        let other = trade(&long_fields(bytes, "i8"));
        let opened = Subscriber::open_for(&config, &other).map(|_| ());
        let refused = matches!(opened, Err(OpenError::Type { .. }));
        assert_eq!(refused, is_stored, "{bytes} bytes: {opened:?}");
        drop((publisher, subscriber));
        // Others have stored theirs.
        let _short = Publisher::open_for(&config, &trade("price i64")).unwrap();
        let opened = Subscriber::open_for(&config, &long).map(|_| ());
        let refused = matches!(opened, Err(OpenError::Type { .. }));
        assert_eq!(refused, is_stored, "{bytes} bytes: {opened:?}");
    }
}

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
        panic_of(MessageType::of::<T>)
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
