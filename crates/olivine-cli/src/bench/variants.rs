//! Variants of a measurement: methods, sizes and settings, checked before it starts.

use super::ALL;
use crate::args::{RingArgs, values};
use crate::failure::{Failure, Outcome};
use olivine::Config;
use olivine_bench::method::{self, Method, OLIVINE_PREFIX};
use olivine_bench::payload::SIZE_MIN;
use olivine_bench::result::Parameters;
use olivine_bench::scenario::Variant;
use olivine_bench::scenario::throughput::OWN;

/// Setting that gives each message a separate cache line.
const ALIGNED: &str = "align=64";

/// A variant of a method with messages of `size` bytes.
pub(super) fn variant(method: &str, size: u64, settings: &str) -> Outcome<Variant> {
    message_size(size)?;
    let mut parameters = Parameters::pair(size);
    settings.clone_into(&mut parameters.settings);
    for (key, value) in settings.split('&').filter_map(|pair| pair.split_once('=')) {
        match key {
            "wait" => parameters.wait = Some(value.to_owned()),
            "capacity" => parameters.ring_bytes = values::size(value).ok(),
            _ => {}
        }
    }
    Ok(Variant {
        method: method.to_owned(),
        parameters,
    })
}

/// The built-in method called `name`.
fn found(name: &str) -> Outcome<&'static dyn Method> {
    method::find(method::BUILT_IN, name).map_err(|error| Failure::usage(error.to_string()))
}

/// A variant of a built-in method. `settings` are those of a channel; the name implies the wait
/// strategy.
fn of_method(method: &dyn Method, size: u64, settings: &str) -> Outcome<Variant> {
    let is_ours = method.name().starts_with(OLIVINE_PREFIX);
    let settings = settings.split_once('&').map_or("", |(_wait, more)| more);
    let mut variant = variant(method.name(), size, if is_ours { settings } else { "" })?;
    variant.parameters.wait = Some(method.wait().to_owned());
    Ok(variant)
}

/// Every named method with every size. `settings` are those of Olivine's channels.
pub(super) fn method_variants(
    names: &[String],
    sizes: &[u64],
    settings: &str,
) -> Outcome<Vec<Variant>> {
    let mut chosen = Vec::new();
    for name in names {
        if name == ALL {
            chosen.extend(method::BUILT_IN);
        } else {
            chosen.push(found(name)?);
        }
    }
    let mut variants = Vec::new();
    for &size in sizes {
        for method in &chosen {
            let variant = of_method(*method, size, settings)?;
            if method.name() == method::OLIVINE.name() && variant.parameters.settings.is_empty() {
                // Packed, and with a cache line for each message, because either may be faster.
                let mut aligned = variant.clone();
                ALIGNED.clone_into(&mut aligned.parameters.settings);
                variants.push(aligned);
            }
            variants.push(variant);
        }
    }
    Ok(variants)
}

/// Refuses a size that cannot be checked.
fn message_size(bytes: u64) -> Outcome {
    if bytes < SIZE_MIN as u64 {
        return Err(Failure::usage(format!(
            "--size {bytes} is too small: a checked message takes {SIZE_MIN} bytes or more, for \
            its number and time stamp"
        )));
    }
    Ok(())
}

/// The query of the measured channel's URI, checked by the library's parser.
pub(super) fn settings(ring: &RingArgs, more: &str) -> Outcome<String> {
    let mut settings = format!("wait={}", ring.wait());
    for (key, value) in [("align", &ring.align), ("capacity", &ring.capacity)] {
        if let Some(value) = value {
            settings.push_str(&format!("&{key}={value}"));
        }
    }
    settings.push_str(more);
    let _checked = Config::parse(&format!("shm://bench?{settings}"))?;
    Ok(settings)
}

/// Refuses a setting that no method of `names` has. Without names this library is measured, which
/// has all settings.
pub(super) fn fits(ring: &RingArgs, names: &[String]) -> Outcome {
    let all_wait = names.is_empty() || names.iter().any(|name| name == ALL || name == OWN);
    let is_ours = |name: &String| name.starts_with(OLIVINE_PREFIX);
    let has_ring = all_wait || names.iter().any(is_ours);
    let named = names.join(",");
    if ring.wait.is_some() && !all_wait {
        return Err(Failure::usage(format!(
            "--wait does not go with --method {named}: a method waits as its name says; name \
             olivine-shm, or leave \
             --wait out"
        )));
    }
    for (option, value) in [("--align", &ring.align), ("--capacity", &ring.capacity)] {
        if value.is_some() && !has_ring {
            return Err(Failure::usage(format!(
                "{option} does not go with --method {named}: only channels of this library have a \
                 ring; name one of \
                 those, or leave {option} out"
            )));
        }
    }
    Ok(())
}

/// Without a given alignment, frames are measured packed and on separate cache lines.
pub(super) fn aligns(ring: &RingArgs) -> &'static [&'static str] {
    if ring.align.is_some() {
        &[""]
    } else {
        &["", "&align=64"]
    }
}

/// The rings of a stream without `--ring`: the smallest and the largest default capacity (ADR
/// 0019).
const RINGS: [&str; 2] = ["1MiB", "4MiB"];

/// `settings` with each ring.
fn with_rings(settings: &str) -> Vec<String> {
    if settings.contains("capacity=") {
        return vec![settings.to_owned()];
    }
    let rings = RINGS.iter();
    rings
        .map(|ring| format!("{settings}&capacity={ring}"))
        .collect()
}

/// Every method with every size and every batch; without both, the three main cases.
pub(super) fn throughput_variants(
    methods: &[String],
    sizes: &[u64],
    batches: &[u16],
    settings: &str,
) -> Outcome<Vec<Variant>> {
    let cases: Vec<(u64, u16)> = if sizes.is_empty() && batches.is_empty() {
        vec![(32, 1), (32, 16), (8192, 1)]
    } else {
        let sizes = if sizes.is_empty() { &[32] } else { sizes };
        let batches = if batches.is_empty() { &[1] } else { batches };
        let crossed = sizes
            .iter()
            .flat_map(|&size| batches.iter().map(move |&batch| (size, batch)));
        crossed.collect()
    };
    let mut variants = Vec::new();
    for (size, batch) in cases {
        let of_size = if methods.is_empty() {
            own(size, settings)?
        } else {
            streams(methods, size, u64::from(batch), settings)?
        };
        variants.extend(of_size.into_iter().map(|mut variant| {
            variant.parameters.batch_count = u64::from(batch);
            variant
        }));
    }
    Ok(variants)
}

/// This library with its fastest settings, with each ring.
fn own(size: u64, settings: &str) -> Outcome<Vec<Variant>> {
    let settings = with_rings(settings);
    settings.iter().map(|all| variant(OWN, size, all)).collect()
}

/// Every method named, as it streams: for `all`, this library at its fastest and every method that
/// can, in batches only those that hand a batch over at once.
fn streams(names: &[String], size: u64, batch: u64, settings: &str) -> Outcome<Vec<Variant>> {
    let mut variants = Vec::new();
    for name in names {
        if name == ALL || name == OWN {
            variants.extend(own(size, settings)?);
        }
        if name == ALL {
            let can = |method: &&&dyn Method| method::check_stream(**method, batch).is_ok();
            for method in method::BUILT_IN.iter().filter(can) {
                variants.push(of_method(*method, size, settings)?);
            }
        } else if name != OWN {
            let method = found(name)?;
            let checked = method::check_stream(method, batch);
            checked.map_err(|error| Failure::usage(format!("--method {name}: {error}")))?;
            variants.push(of_method(method, size, settings)?);
        }
    }
    Ok(variants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_batches_are_crossed_and_have_defaults() {
        let shape = |sizes: &[u64], batches: &[u16], settings: &str| -> Vec<(u64, u64)> {
            let variants = throughput_variants(&[], sizes, batches, settings).unwrap();
            variants
                .iter()
                .map(|variant| {
                    let parameters = &variant.parameters;
                    (parameters.size_bytes, parameters.batch_count)
                })
                .collect()
        };
        let ring = "wait=spin&capacity=1MiB";
        assert_eq!(shape(&[], &[], ring), [(32, 1), (32, 16), (8192, 1)]);
        assert_eq!(shape(&[64], &[], ring), [(64, 1)]);
        assert_eq!(shape(&[], &[4], ring), [(32, 4)]);
        assert_eq!(
            shape(&[16, 32], &[1, 2], ring),
            [(16, 1), (16, 2), (32, 1), (32, 2)]
        );
        assert!(throughput_variants(&[], &[8], &[], "").is_err());
        // Without a given ring, each case is measured with both.
        assert_eq!(shape(&[64], &[], "wait=spin"), [(64, 1), (64, 1)]);
        let both = throughput_variants(&[], &[64], &[], "wait=spin").unwrap();
        let rings = both.iter().map(|variant| variant.parameters.ring_bytes);
        assert!(rings.eq([Some(1 << 20), Some(4 << 20)]));
    }

    #[test]
    fn exactly_the_streaming_methods_are_measured() {
        let all = [ALL.to_owned()];
        for batch in [1, 16] {
            let settings = "wait=spin&capacity=4MiB";
            let variants = throughput_variants(&all, &[32], &[batch], settings).unwrap();
            assert_eq!(variants[0].method, OWN);
            let expected: Vec<_> = method::BUILT_IN
                .iter()
                .filter(|method| method.streams() && (batch == 1 || method.batches()))
                .collect();
            assert_eq!(expected.len(), variants.len() - 1);
            for (method, variant) in expected.into_iter().zip(&variants[1..]) {
                assert_eq!(variant.method, method.name());
                assert_eq!(variant.parameters.batch_count, u64::from(batch));
                let ours = method.name().starts_with(OLIVINE_PREFIX);
                let settings = if ours { "capacity=4MiB" } else { "" };
                assert_eq!(variant.parameters.settings, settings, "{}", method.name());
            }
        }
        let wrong = throughput_variants(&["pigeon".to_owned()], &[], &[], "wait=spin");
        assert!(matches!(wrong, Err(Failure::Usage(_))));
    }

    #[test]
    fn settings_of_the_measured_channel_are_checked_before_anything_starts() {
        let ring = |wait: &str, align: Option<&str>| RingArgs {
            wait: Some(wait.to_owned()),
            align: align.map(str::to_owned),
            capacity: None,
        };
        assert_eq!(
            settings(&ring("spin", Some("64")), "").unwrap(),
            "wait=spin&align=64"
        );
        assert!(matches!(
            settings(&ring("nap", None), ""),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(
            settings(&ring("spin", Some("3")), ""),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(
            settings(&ring("spin", None), "&subscribers_max=9999"),
            Err(Failure::Usage(_))
        ));
    }
}
