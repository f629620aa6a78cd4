//! Volume URLs from the outside: every scheme, every filter, every way to get one wrong, and the round trip.

use names::{BlockSize, ByteSize, Filter, RdmaOptions, RdmaTransport, Source, VolumeUrl};

/// What is written equals what was read.
const CANONICAL: &[&str] = &[
    "null:600M",
    "ram:4G?block=4096",
    "file:disk.img",
    "file:a%20b%3Fc%25+d.img?size=2G&direct=1&block=512",
    "file:/%2F",
    "file:/%2Fdisk.img",
    "file:///disk.img",
    "device:/dev/nvme0n1?direct=0",
    "iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0",
    "iscsi://[::1]:7/eui.02004567a425678d/16383?header_digest=crc32c&data_digest=crc32c\
     &initiator=iqn.1993-08.org.debian:01:x&isid=800102abcdef&timeout=5s&reconnect=0&chap_user=a%26b\
     &chap_secret_file=/etc/s&chap_mutual_user=t&chap_mutual_secret_env=SECRET",
    "nvme+tcp://storage.example:4420/nqn.2026-11.org.linerate:a%2Fb/4294967294?header_digest=1&data_digest=1\
     &queues=2&timeout=1m&reconnect=250ms&hostnqn=nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6\
     &hostid=f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "iser://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0",
    "iser://[::1]:7/eui.02004567a425678d/16383?crc=1&initiator=iqn.1993-08.org.debian:01:x&isid=800102abcdef&timeout=5s\
     &reconnect=0&chap_user=a%26b&chap_secret_file=/etc/s&chap_mutual_user=t&chap_mutual_secret_env=SECRET",
    "nvme+rdma://storage.example:4420/nqn.2026-11.org.linerate:a%2Fb/4294967294?crc=1&queues=2&timeout=1m\
     &reconnect=250ms&hostnqn=nqn.2014-08.org.example:h&hostid=f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "nfs://127.0.0.1:2049/disk.img",
    "nfs+rdma://127.0.0.1:20049/files/disk.img",
    "nfs://127.0.0.1:2049/files/disk.img?version=3&mountport=20048&uid=0",
    "nfs+rdma://h:20049/files/disk.img?version=3&mountport=2049",
    "nfs+rdma://[::1]:7/files/disk.img?crc=1&version=4.1&uid=0",
    "nfs+rdma://h:20049/files/disk.img?transport=roce&udp_port=4792&size=2G",
    "nfs://[::1]:7/export/a%20b%2Fc%3F/d.img?version=4.1&uid=0&gid=100&exclusive=1&size=2G&block=4096&timeout=5s&reconnect=0",
    "delay=5ms,jitter=1ms,seed=7,on=read,on=flush+ram:1G",
    "fail=0.5000%,kind=nospace,on=write,blocks=8-15,seed=3+fail=1/100+null:1M",
    "limit=5000iops,200M/s+limit=7iops+limit=1k/s+stats+readonly+device:/dev/x",
    "mirror=[ram:1M]",
    "stats+mirror=[delay=5ms,on=read+ram:1M,mirror=[fail=1/50,on=write+file:a%2Cb%5Bc%5D?size=1M,null:1M]]",
    "mirror=[iscsi://[::1]:7/iqn.2026-11.org.linerate:disk/0,nvme+tcp://[::1]:4420/nqn.2026-11.org.linerate:disk/1?queues=2]",
    "mirror=[iser://[::1]:7/iqn.2026-11.org.linerate:disk/0?crc=1,nvme+rdma://[::1]:4420/nqn.2026-11.org.linerate:disk/1]",
];

#[test]
fn what_is_read_is_written() {
    for text in CANONICAL {
        assert_eq!(text.parse::<VolumeUrl>().unwrap().to_string(), *text);
    }
}

#[test]
fn parts_are_what_they_say() {
    let url: VolumeUrl = "stats+readonly+file:disk.img?size=2G&block=4096".parse().unwrap();
    assert_eq!(url.filters, [Filter::Stats, Filter::ReadOnly]);
    assert!(url.is_read_only());
    let Source::File(file) = &url.source else { panic!("{url:?}") };
    assert_eq!((file.path.as_str(), file.size, file.direct), ("disk.img", Some(ByteSize(2 << 30)), false));
    assert_eq!(file.block.map(BlockSize::bytes), Some(4096));
    let remote: VolumeUrl = "nvme+tcp://[fe80::1]/nqn.2026-11.org.linerate:disk/1".parse().unwrap();
    let Source::Nvme(remote) = remote.source else { panic!("not NVMe") };
    assert_eq!(remote.portal.address().unwrap().to_string(), "[fe80::1]:4420");
    assert_eq!(remote.options.rdma, None);
    let remote: VolumeUrl = "iser://[fe80::1]/iqn.2026-11.org.linerate:disk/1?crc=1".parse().unwrap();
    let Source::Iscsi(remote) = remote.source else { panic!("not iSCSI") };
    assert_eq!(remote.portal.address().unwrap().to_string(), "[fe80::1]:3260");
    assert_eq!(remote.options.rdma, Some(RdmaOptions { crc: true, transport: RdmaTransport::Iwarp }));
    for (text, udp_port) in [
        ("iser://[fe80::1]:3260/iqn.2026-11.org.linerate:disk/1?transport=roce&udp_port=7000", 7000),
        ("iser://[fe80::1]:3260/iqn.2026-11.org.linerate:disk/1?transport=roce", 4791),
    ] {
        let url: VolumeUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), text);
        let Source::Iscsi(remote) = url.source else { panic!("not iSCSI") };
        let transport = RdmaTransport::Roce { udp_port };
        assert_eq!(remote.options.rdma, Some(RdmaOptions { crc: false, transport }));
    }
}

/// Text, where the error must point (in characters from zero), and a word that its text must have.
const WRONG: &[(&str, usize, &str)] = &[
    ("", 0, "scheme"),
    ("disk.img", 0, "did you mean file:disk.img?"),
    ("./disk:1.img", 0, "did you mean file:./disk:1.img?"),
    ("/dev/sdb", 0, "did you mean device:/dev/sdb?"),
    ("nvme://127.0.0.1/nqn.2026-11.org.linerate:disk/1", 0, "did you mean nvme+tcp://?"),
    ("NVME-TCP://127.0.0.1/nqn.2026-11.org.linerate:disk/1", 0, "did you mean nvme+tcp://?"),
    ("NVMe-RDMA://127.0.0.1/nqn.2026-11.org.linerate:disk/1", 0, "did you mean nvme+rdma://?"),
    ("isers://127.0.0.1/iqn.2026-11.org.linerate:disk/0", 0, "did you mean iser://?"),
    ("iser://h/iqn.2026-11.org.linerate:d/0?data_digest=crc32c", 38, "crc=1"),
    ("nvme+rdma://h/nqn.2026-11.org.linerate:d/1?timeout=1s&header_digest=1", 54, "has no digests"),
    ("iser://h/iqn.2026-11.org.linerate:d/0?transport=ib", 48, "iwarp or roce"),
    ("iser://h/iqn.2026-11.org.linerate:d/0?udp_port=7000", 38, "transport=roce"),
    ("iser://h/iqn.2026-11.org.linerate:d/0?transport=roce&crc=1", 53, "leave crc out"),
    ("iser://h/iqn.2026-11.org.linerate:d/0?transport=rdma&crc=1", 53, "leave crc out"),
    ("iser://h/iqn.2026-11.org.linerate:d/0?transport=rdma&udp_port=7000", 53, "transport=roce"),
    ("nvme+rdma://h/nqn.2026-11.org.linerate:d/1?crc=yes", 47, "1 for yes"),
    ("nvme+tcp://h/nqn.2026-11.org.linerate:d/1?crc=1", 42, "no option"),
    ("iscs://127.0.0.1/iqn.2026-11.org.linerate:disk/0", 0, "did you mean iscsi://?"),
    ("rom:1G", 0, "did you mean ram:?"),
    ("dealy=5ms+ram:1G", 0, "did you mean the filter delay?"),
    ("stat+ram:1G", 0, "did you mean the filter stats?"),
    ("file://disk.img", 5, "without the slashes"),
    ("device://dev/sdb", 7, "without the slashes"),
    ("file:a?dircet=1", 7, "did you mean direct?"),
    ("ram:1GiB", 4, "did you mean 1G"),
    ("disk:1G", 0, "nvme+tcp://"),
    ("ram:", 4, "size"),
    ("ram:4Q", 4, "\"4Q\" is not a size"),
    ("ram:4G?size=3", 7, "it has block"),
    ("ram:4G?block=1024", 13, "512 or 4096"),
    ("ram:4G?block=512&block=512", 17, "twice"),
    ("ram:4G?block", 7, "OPTION=VALUE"),
    ("file:", 5, "path"),
    ("file:a%2", 7, "hexadecimal"),
    ("file:a%ff", 5, "UTF-8"),
    ("file:ä?direct=yes", 14, "1 for yes"),
    ("file:a?sise=1G", 7, "size, direct, block"),
    ("file:a%00", 5, "zero byte"),
    ("iscsi:host", 6, "slashes"),
    ("iscsi://host", 12, "missing"),
    ("iscsi://host/iqn.2026-11.org.linerate:disk", 42, "LUN"),
    ("iscsi://host/disk/0", 13, "iqn."),
    ("iscsi://host/iqn.2026-11.org.linerate:disk/16384", 43, "16383"),
    ("iscsi://ho st/iqn.2026-11.org.linerate:disk/0", 8, "host name"),
    ("iscsi://::1/iqn.2026-11.org.linerate:disk/0", 8, "brackets"),
    ("iscsi://h/iqn.2026-11.org.linerate:d/0?data_digest=1", 51, "crc32c or none"),
    ("iscsi://h/iqn.2026-11.org.linerate:d/0?chap_user=u", 39, "chap_secret_file"),
    ("iscsi://h/iqn.2026-11.org.linerate:d/0?chap_secret_env=S", 39, "chap_user"),
    (
        "iscsi://h/iqn.2026-11.org.linerate:d/0?chap_user=u&chap_secret_file=f&chap_secret_env=S",
        70,
        "one of them",
    ),
    ("iscsi://h/iqn.2026-11.org.linerate:d/0?timeout=0", 47, "above zero"),
    ("iscsi://h/iqn.2026-11.org.linerate:d/0?reconnect=5", 49, "duration"),
    ("nvme+tcp://h/nqn.2026-11.org.linerate:d/0", 40, "namespace"),
    ("nvme+tcp://h/nqn.2026-11.org.linerate:d/1?queues=x", 49, "number"),
    ("nvme+tcp://h/nqn.2026-11.org.linerate:d/1?hostid=1", 49, "UUID"),
    ("nfs3://h/a", 0, "did you mean nfs://?"),
    ("nfs-rdma://h/a", 0, "did you mean nfs+rdma://?"),
    ("nfs://h/a?transport=roce", 10, "no option"),
    ("nfs+rdma://h/a?transport=tcp", 25, "carries no RDMA"),
    ("nfs://h", 7, "path is missing"),
    ("nfs://h/", 8, "path is missing"),
    ("nfs://h/a//b", 10, "empty"),
    ("nfs://h/a/../b", 10, "no name of a file"),
    ("nfs://h/a?version=4", 18, "4.1 or 4.2"),
    ("nfs://h/a?version=2", 18, "write 3"),
    ("nfs://h/a?version=3&exclusive=1", 20, "cannot deny others"),
    ("nfs://h/a?mountport=20048", 10, "only version 3"),
    ("nfs://h/a?version=4.1&mountport=20048", 22, "only version 3"),
    ("nfs://h/a?version=3&mountport=0", 30, "at least 1"),
    ("nfs://h/a?version=3&mountport=65536", 30, "number"),
    ("nfs://h/a?uid=-1", 14, "number"),
    ("nfs://h/a?exclusive=yes", 20, "1 for yes"),
    ("nfs://h/a?sec=krb5", 10, "no option"),
    ("delay=5ms", 0, "'+'"),
    ("delay+ram:1G", 5, "delay=5ms+"),
    ("delay=5+ram:1G", 6, "duration"),
    ("delay=5ms,foo=1+ram:1G", 10, "jitter="),
    ("stats=1+ram:1G", 5, "no arguments"),
    ("fail=101%+ram:1G", 5, "rate"),
    ("fail=429496.9999%+ram:1G", 5, "rate"),
    ("fail=1/0+ram:1G", 5, "rate"),
    ("fail=1%,on=everything+ram:1G", 11, "flush"),
    ("fail=1%,blocks=9-8+ram:1G", 15, "FIRST-LAST"),
    ("limit=fast+ram:1G", 6, "1000iops"),
    ("limit=0/s+ram:1G", 6, "zero"),
    ("limit=1iops,2iops+ram:1G", 12, "twice"),
    ("readonly+bogus:1G", 9, "neither a scheme nor a filter"),
    ("mirror=[", 0, "closing bracket"),
    ("mirror=[ram:1M", 0, "closing bracket"),
    ("mirror=[]", 8, "scheme"),
    ("mirror=[ram:1M,]", 15, "scheme"),
    ("mirror=[ram:1M,rom:1M]", 15, "did you mean ram:?"),
    ("mirror=[ram:1M,delay=5+ram:1M]", 21, "duration"),
    ("mirror=[ram:1M]x", 15, "behind the closing bracket"),
    ("mirror=[ram:1M]?", 16, "is not an option"),
    ("mirror=[ram:1M]?Copies=2", 16, "cannot be an option's name"),
    ("mirror=[ram:1M]?copies=2&copies=3", 25, "copies is given twice"),
    ("a=[b=[c=[d=[e=[ram:1M]]]]]", 12, "4 deep"),
    ("=[ram:1M]", 0, "scheme"),
];

#[test]
fn every_mistake_is_named_where_it_stands_with_a_remedy() {
    for (text, at, word) in WRONG {
        let error = text.parse::<VolumeUrl>().expect_err(text);
        assert_eq!(error.position(), *at, "{error}");
        assert!(error.to_string().contains(word), "{error} lacks {word}");
        assert!(!error.remedy().is_empty());
    }
}

#[test]
fn a_secret_in_the_url_is_refused_and_not_repeated() {
    for text in [
        "iscsi://user:hunter2@host/iqn.2026-11.org.linerate:disk/0",
        "iscsi://host/iqn.2026-11.org.linerate:disk/0?chap_user=u&chap_secret=hunter2",
    ] {
        let error = text.parse::<VolumeUrl>().unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("chap_secret_file"), "{error}");
    }
}

#[test]
fn parts_of_a_composite_are_volumes() {
    let url: VolumeUrl = "readonly+pair=[stats+ram:1M,file:a%2Cb]".parse().unwrap();
    assert!(url.is_read_only());
    let Source::Composite(pair) = &url.source else { panic!("{url:?}") };
    assert_eq!((pair.kind.as_str(), url.source.scheme(), pair.children.len()), ("pair", "pair", 2));
    assert_eq!(pair.children[0].filters, [Filter::Stats]);
    let Source::File(file) = &pair.children[1].source else { panic!("{url:?}") };
    assert_eq!(file.path, "a,b");
    let many = |count| format!("mirror=[{}]", vec!["null:1M"; count].join(",")).parse::<VolumeUrl>();
    assert!(many(16).is_ok());
    assert!(many(17).unwrap_err().to_string().contains("16 volumes"));
}

#[test]
fn a_composite_has_options_that_whoever_opens_it_knows() {
    let url: VolumeUrl = "pair=[pair=[ram:1M,ram:1M]?copies=2&name=a%2Cb%26,ram:1M]?slab=1G".parse().unwrap();
    let Source::Composite(outer) = &url.source else { panic!("{url:?}") };
    let Source::Composite(inner) = &outer.children[0].source else { panic!("{url:?}") };
    assert_eq!((outer.option("slab"), outer.option("copies"), outer.children.len()), (Some("1G"), None, 2));
    assert_eq!((inner.option("copies"), inner.option("name")), (Some("2"), Some("a,b&")));
    assert_eq!(outer.unknown_option(&["slab"]), None);
    let said = inner.unknown_option(&["copiers", "name"]).unwrap();
    assert_eq!(said, "pair= has no option \"copies\": did you mean copiers? it has copiers, name");
}

#[test]
fn too_many_filters_are_refused() {
    let url = "stats+".repeat(16) + "null:1M";
    assert!(url.parse::<VolumeUrl>().is_ok());
    assert!(("stats+".to_owned() + &url).parse::<VolumeUrl>().is_err());
}
