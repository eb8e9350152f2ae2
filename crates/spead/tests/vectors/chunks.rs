//! Chunks, flags and statistics of the chunk receiver.

use fullcount_spead::chunk::{
    Chunk, ChunkConfig, ChunkReceiver, ChunkRing, HeapPlace, PlaceRequest,
};
use fullcount_spead::receive::ReceiverConfig;
use serde_json::{Value, json};

use crate::facts::{assert_data, case, file, hex};

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

#[test]
fn chunks_are_those_of_spead2() {
    for name in ["chunks", "chunks_presence"] {
        let case = case(name);
        for (n, expected) in case["chunk_receive"].as_array().unwrap().iter().enumerate() {
            let at = format!("{name} {n}");
            let length = number(&expected["heap_length"]);
            let presence = number(&expected["packet_presence_payload"]);
            let packets = length.checked_div(presence).unwrap_or(1);
            // The place rule of the vectors.
            let place = move |request: PlaceRequest<'_>| {
                let heap =
                    request.items[1].filter(|_| request.items[0] == Some(length as u64))? as usize;
                request.extra.extend(request.items[2].map(|tag| tag as u8));
                Some(HeapPlace {
                    chunk: heap as u64 / 4,
                    index: heap % 4 * packets,
                    offset: heap % 4 * length,
                    extra_offset: heap % 4,
                })
            };
            let mut ring = ChunkRing::default();
            for _ in 0..64 {
                let data = vec![0xee; 4 * length];
                ring.add_free(Chunk {
                    data,
                    extra: vec![0xee; 4],
                    ..Chunk::new(0, 4 * packets, 0)
                });
            }
            let stream = ReceiverConfig {
                allow_out_of_order: expected["allow_out_of_order"] == true,
                ..ReceiverConfig::spead2()
            };
            let chunks = ChunkConfig {
                max_chunks: number(&expected["max_chunks"]),
                max_heap_extra: 1,
                packet_presence: (presence > 0).then_some(presence),
                ..ChunkConfig::with_items(&[0x1600, 0x1601])
            };
            let mut stream = ChunkReceiver::for_chunks(stream, chunks, place, ring).unwrap();
            stream.push_buffer(0, &file(case["file"].as_str().unwrap()));
            assert!(stream.ended().is_some());
            for wanted in expected["chunks"].as_array().unwrap() {
                let chunk = stream.store_mut().memory_mut().pop().unwrap();
                let at = format!("{at} chunk {}", chunk.id);
                assert_eq!(Value::from(chunk.id), wanted["chunk_id"], "{at}");
                assert_eq!(json!(chunk.present), wanted["present"], "{at}");
                assert_eq!(json!(hex(&chunk.extra)), wanted["extra"], "{at}");
                assert_data(&chunk.data, &wanted["data"], &at);
            }
            assert!(stream.store_mut().memory_mut().is_stopped(), "{at}");
            for (name, value) in expected["stats"].as_object().unwrap() {
                assert_eq!(json!(stream.statistics().get(name)), *value, "{at} {name}");
            }
        }
    }
}
