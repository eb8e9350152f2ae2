//! The effect of each answer of the kernel to a send call on the next one.

use super::*;

fn piece(len: usize, segment: Option<u16>) -> Piece<'static> {
    let bytes = vec![0; len].leak();
    let packets = segment.map_or(1, |s| len.div_ceil(usize::from(s)));
    Piece { bytes, segment, packets }
}

fn of(code: i32, p: &Piece<'_>) -> Answer {
    answer(&io::Error::from_raw_os_error(code), p, MAX_PAYLOAD_V4)
}

#[test]
fn full_queues_are_tried_again_and_reports_set_aside() {
    let one = piece(100, None);
    assert_eq!(of(libc::EINTR, &one), Answer::Again);
    for full in [libc::ENOBUFS, libc::EAGAIN, libc::ENOMEM] {
        assert_eq!(of(full, &one), Answer::Later);
    }
    for report in [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EMSGSIZE] {
        assert_eq!(of(report, &one), Answer::Report);
    }
    assert_eq!(of(libc::EACCES, &one), Answer::Forbidden);
    assert_eq!(of(libc::EPERM, &one), Answer::Forbidden);
    assert_eq!(of(libc::EBADF, &one), Answer::Fatal);
}

#[test]
fn a_refused_train_goes_without_offload_and_a_refused_datagram_is_too_long() {
    let train = piece(3000, Some(1500));
    for refused in [libc::EINVAL, libc::EMSGSIZE, libc::EIO, libc::EOPNOTSUPP] {
        assert_eq!(of(refused, &train), Answer::NoOffload);
    }
    assert_eq!(of(libc::EMSGSIZE, &piece(65_508, None)), Answer::TooLong);
    assert_eq!(of(libc::EINVAL, &piece(100, None)), Answer::Fatal);
}

#[test]
fn limits_go_down_to_what_the_path_takes() {
    let url = UdpUrl::new("127.0.0.1:9".parse().unwrap());
    let mut sender = UdpSender::open(&url, &SendOptions::default()).unwrap();
    sender.limits = SplitLimits { segments: 128, bytes: 65_507, stride: 65_507 };
    let err = io::Error::from_raw_os_error;
    let l = sender.lower(&err(libc::EINVAL), &piece(100 * 64, Some(64)));
    assert_eq!((l.segments, l.stride), (64, 65_507), "fewer segments first");
    let l = sender.lower(&err(libc::EMSGSIZE), &piece(3000, Some(1500)));
    assert_eq!((l.segments, l.stride), (64, 1499), "then what fits the MTU");
    let l = sender.lower(&err(libc::EIO), &piece(200, Some(100)));
    assert_eq!(l, SplitLimits::PLAIN, "no checksum offload: no trains");
}
