//! Through spead2 and back: what ours sends is received by the Python package spead2, sent again by it, and received by ours.
//!
//! Needs the Python of the tests, which has that package.

use std::process::Command;

use super::*;

const SCRIPT: &str = r#"
import sys, pathlib, logging
import spead2, spead2.recv, spead2.send
logging.basicConfig(level=logging.INFO)
pool = spead2.ThreadPool()
folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("*.in")):
    bits, compat, size = (int(word) for word in path.stem.split("_")[1:])
    flavour = spead2.Flavour(4, 64, bits, compat)
    stream = spead2.recv.Stream(pool, spead2.recv.StreamConfig(bug_compat=compat))
    stream.add_buffer_reader(path.read_bytes())
    group = spead2.ItemGroup()
    heaps = list(stream)
    assert len(heaps) == 1, (path, len(heaps))
    changed = group.update(heaps[0])
    assert len(changed) == len(group), path
    out = spead2.send.BytesStream(pool, spead2.send.StreamConfig(max_packet_size=size))
    generator = spead2.send.HeapGenerator(group, flavour=flavour)
    out.send_heap(generator.get_heap(descriptors="all", data="all"))
    out.send_heap(generator.get_end())
    path.with_suffix(".out").write_bytes(out.getvalue())
"#;

#[test]
fn a_thousand_item_groups_go_through_spead2_and_back() {
    let Some(python) = fullcount_testing::python::python() else { return };
    let folder = std::env::temp_dir().join(format!("fullcount-spead-peer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut sent = vec![];
    for seed in 0..1000u64 {
        let bits = [40, 48, 32, 24][(seed % 4) as usize];
        let compat = BugCompat::from_bits((seed / 4 % 8) as u32).unwrap();
        let size = 56 + (seed * 37 % 9000) as usize;
        let mut group = ItemGroup::new(compat);
        for (descriptor, value) in items(seed) {
            let id = group.add(descriptor).unwrap();
            group.set(id, value).unwrap();
        }
        let mut generator = HeapGenerator::new(group, Flavour::new(bits).unwrap(), None);
        let mut sender =
            HeapSender::new(SenderConfig { cut: rules(size), ..Default::default() }).unwrap();
        sender.send(generator.heap(What::All, What::All).unwrap(), SendHow::default()).unwrap();
        sender.send(OutHeap::stop(Flavour::new(bits).unwrap()), SendHow::default()).unwrap();
        let name = format!("{seed:04}_{bits}_{}_{size}", seed / 4 % 8);
        std::fs::write(folder.join(format!("{name}.in")), run(&mut sender).concat()).unwrap();
        sent.push((name, generator.group));
    }
    let ran = Command::new(python).arg("-c").arg(SCRIPT).arg(&folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    for (name, group) in sent {
        let bytes = std::fs::read(folder.join(format!("{name}.out"))).unwrap();
        let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
        stream.push_buffer(0, &bytes);
        let heap = stream.pop().unwrap().heap().unwrap();
        let mut known = ItemGroup::new(group.compat());
        assert_eq!(known.update(&heap).errors, [], "{name}");
        assert_eq!(known.items().count(), group.items().count());
        for item in group.items() {
            let back = known.get(item.descriptor.id).unwrap();
            assert_eq!(back.value, item.value, "{name}: {:?}", item.descriptor);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
