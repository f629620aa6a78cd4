//! What a name writes, it reads back as the same value; and no text at all makes a parser panic.

use std::time::Duration;

use names::{
    BlockSize, ByteSize, CompositeSource, Delay, DeviceSource, DiscoveryUrl, Fail, FailKind, FailRate,
    FileSource, Filter, Iqn, Limit, MemorySource, Nqn, OperationKind, Portal, Source, Span, VolumeUrl,
};
use proptest::prelude::*;

fn block() -> impl Strategy<Value = Option<BlockSize>> {
    prop::option::of(prop_oneof![Just(BlockSize::B512), Just(BlockSize::B4096)])
}

fn memory() -> impl Strategy<Value = MemorySource> {
    (any::<u64>(), block()).prop_map(|(size, block)| MemorySource { size: ByteSize(size), block })
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>().prop_filter("no zero byte", |letter| *letter != '\0'), 1..20)
        .prop_map(|letters| letters.into_iter().collect())
}

fn source() -> impl Strategy<Value = Source> {
    let file = (path(), prop::option::of(any::<u64>()), any::<bool>(), block()).prop_map(
        |(path, size, direct, block)| {
            Source::File(FileSource { path, size: size.map(ByteSize), direct, block })
        },
    );
    let device = (path(), any::<bool>(), block())
        .prop_map(|(path, direct, block)| Source::Device(DeviceSource { path, direct, block }));
    prop_oneof![memory().prop_map(Source::Null), memory().prop_map(Source::Ram), file, device]
}

fn on() -> impl Strategy<Value = Vec<OperationKind>> {
    let kinds = vec![OperationKind::Read, OperationKind::Write, OperationKind::Flush, OperationKind::Verify];
    prop::sample::subsequence(kinds, 0..4)
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(|nanos| Span(Duration::from_nanos(nanos)))
}

fn filter() -> impl Strategy<Value = Filter> {
    let delay = (span(), span(), any::<u64>(), on())
        .prop_map(|(time, jitter, seed, on)| Filter::Delay(Delay { time, jitter, seed, on }));
    let rate = prop_oneof![
        (0..=1_000_000_u32).prop_map(FailRate::PartsPerMillion),
        (1..u64::MAX).prop_map(FailRate::EveryNth)
    ];
    let blocks = prop::option::of((0..u64::MAX / 2, 1..u64::MAX / 2));
    let kind = prop_oneof![Just(FailKind::Media), Just(FailKind::TimedOut)];
    let fail = (rate, kind, on(), blocks, any::<u64>())
        .prop_map(|(rate, kind, on, blocks, seed)| Filter::Fail(Fail { rate, kind, on, blocks, seed }));
    let limit = (1..u64::MAX, prop::option::of(1..u64::MAX)).prop_map(|(iops, bandwidth)| {
        Filter::Limit(Limit { iops: Some(iops), bandwidth: bandwidth.map(ByteSize) })
    });
    prop_oneof![delay, fail, limit, Just(Filter::Stats), Just(Filter::ReadOnly)]
}

fn composite(child: impl Strategy<Value = VolumeUrl>) -> impl Strategy<Value = VolumeUrl> {
    let options = prop::collection::btree_map("[a-z]{1,6}", any::<String>(), 0..3);
    (prop::collection::vec(filter(), 0..3), "[a-z]{1,8}", prop::collection::vec(child, 1..4), options)
        .prop_map(|(filters, kind, children, options)| {
            let options = options.into_iter().collect();
            VolumeUrl { filters, source: Source::Composite(CompositeSource { kind, children, options }) }
        })
}

fn url() -> impl Strategy<Value = VolumeUrl> {
    (prop::collection::vec(filter(), 0..4), source())
        .prop_map(|(filters, source)| VolumeUrl { filters, source })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn urls_survive_the_round_trip(url in prop_oneof![url(), composite(url()), composite(composite(url()).boxed())]) {
        prop_assert_eq!(url.to_string().parse::<VolumeUrl>(), Ok(url));
    }

    #[test]
    fn sizes_and_durations_survive_the_round_trip(number in any::<u64>(), span in span()) {
        prop_assert_eq!(ByteSize(number).to_string().parse(), Ok(ByteSize(number)));
        prop_assert_eq!(span.to_string().parse(), Ok(span));
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "(stats\\+|iscsi://|iser://|file:|delay=|nvme\\+(tcp|rdma)://|mirror=\\[(ram:1M,)?)?\\PC{0,40}") {
        let _ = text.parse::<VolumeUrl>().map_err(|error| error.to_string());
        let _ = text.parse::<DiscoveryUrl>().map_err(|error| error.to_string());
        let _ = text.parse::<Iqn>().map_err(|error| error.to_string());
        let _ = text.parse::<Nqn>().map_err(|error| error.to_string());
        let _ = text.parse::<Portal>().map_err(|error| error.to_string());
        let _ = text.parse::<ByteSize>().map_err(|error| error.to_string());
    }
}
