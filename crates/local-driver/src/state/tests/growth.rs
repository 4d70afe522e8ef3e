//! Volumes that grow, and processes that die meanwhile.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};

use super::*;

const LARGER: SizeRange = SizeRange { required: 4096, limit: None };

#[tokio::test]
async fn growth_is_recorded_and_counted_and_outlives_a_restart() {
    let mut state = State::new(Some(10_000));
    let volume = state.make("v", Access::Block).await;
    for _ in 0..2 {
        let grown = state.volumes().expand(&volume.id, LARGER, false).await.unwrap();
        assert_eq!((grown.capacity_bytes, state.taken()), (4096, 4096));
    }
    let full = SizeRange { required: 9_500, limit: None };
    state.make("other", Access::Mount).await;
    assert_eq!(code(state.volumes().expand(&volume.id, full, false).await), Code::ResourceExhausted);
    assert_eq!(state.taken(), 5120, "what was refused is given back");
    state.restart(|_| {}).unwrap();
    assert_eq!(state.volumes().get(&volume.id).unwrap().capacity_bytes, 4096);
    assert_eq!(fs::metadata(state.data(&volume).join("disk")).unwrap().len(), 4096);
    assert_eq!(code(state.volumes().expand(&VolumeId::from("none"), LARGER, false).await), Code::NotFound);
}

#[tokio::test]
async fn growth_that_was_cut_off_is_taken_back_unless_it_holds_data() {
    let mut state = State::new(None);
    let (cut, kept) = (state.make("cut", Access::Block).await, state.make("kept", Access::Block).await);
    let disks = [&cut, &kept].map(|volume| state.data(volume).join("disk"));
    state
        .restart(|_| {
            for disk in &disks {
                OpenOptions::new().write(true).open(disk).unwrap().set_len(1 << 20).unwrap();
            }
            let mut file = OpenOptions::new().write(true).open(&disks[1]).unwrap();
            file.seek(SeekFrom::End(-4)).unwrap();
            file.write_all(b"data").unwrap();
        })
        .unwrap();
    let lengths = disks.map(|disk| fs::metadata(disk).unwrap().len());
    assert_eq!(lengths, [1024, 1 << 20]);
}

#[tokio::test]
async fn a_record_that_cannot_be_written_leaves_the_volume_as_it_was() {
    let state = State::new(Some(10_000));
    let volume = state.make("v", Access::Block).await;
    // A directory in the place of the file that would become the record.
    let unfinished = state.record(&volume).with_file_name(format!(".{}.json", volume.id));
    fs::create_dir(&unfinished).unwrap();
    assert_eq!(code(state.volumes().expand(&volume.id, LARGER, false).await), Code::Internal);
    assert_eq!(state.volumes().get(&volume.id).unwrap().capacity_bytes, 1024);
    assert_eq!((state.taken(), fs::metadata(state.data(&volume).join("disk")).unwrap().len()), (1024, 1024));
    fs::remove_dir(&unfinished).unwrap();
    state.volumes().expand(&volume.id, LARGER, false).await.unwrap();
}
