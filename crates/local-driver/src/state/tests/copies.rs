//! Snapshots, volumes made of them, and clones.

use std::fs;
use std::time::Duration;

use tokio::time::timeout;
use tonic::Code;

use super::*;

fn copy_of(name: &str, source: ContentSource) -> Wanted {
    Wanted { source: Some(source), ..wanted(name, Access::Mount) }
}

impl State {
    async fn snapshot(&self, name: &str, volume: &Record) -> Arc<Snapshot> {
        self.take(name, &volume.id).await.unwrap()
    }

    async fn take(&self, name: &str, volume: &VolumeId) -> Result<Arc<Snapshot>, StateError> {
        self.snapshots().create(name, volume, self.volumes()).await
    }

    fn file(&self, record: &Record) -> PathBuf {
        self.data(record).join("mount/file")
    }

    fn snapshot_data(&self, snapshot: &Snapshot) -> PathBuf {
        self.dir.path().join("snapshot-data").join(snapshot.id.to_string())
    }

    fn snapshot_record(&self, snapshot: &Snapshot) -> PathBuf {
        self.dir.path().join("snapshots").join(format!("{}.json", snapshot.id))
    }
}

#[tokio::test]
async fn a_snapshot_shows_the_volume_as_it_was_and_outlives_it() {
    let mut state = State::new(None);
    let volume = state.make("v", Access::Mount).await;
    fs::write(state.file(&volume), "before").unwrap();
    let snapshot = state.snapshot("s", &volume).await;
    fs::write(state.file(&volume), "after").unwrap();
    state.volumes().delete(&volume.id).await.unwrap();
    state.restart(|_| {}).unwrap();
    assert_eq!(state.take("s", &volume.id).await.unwrap(), snapshot);
    let restored = state.create(copy_of("r", ContentSource::Snapshot(snapshot.id.clone()))).await.unwrap();
    assert_eq!(fs::read(state.file(&restored)).unwrap(), b"before");
    state.snapshots().delete(&snapshot.id).await.unwrap();
    state.snapshots().delete(&snapshot.id).await.unwrap();
    assert!(!state.snapshot_data(&snapshot).exists() && !state.snapshot_record(&snapshot).exists());
    assert_eq!(fs::read(state.file(&restored)).unwrap(), b"before");
    assert_eq!(state.create(copy_of("r", ContentSource::Snapshot(snapshot.id.clone()))).await.unwrap(), restored);
}

#[tokio::test]
async fn a_block_clone_has_the_content_and_may_be_larger() {
    let state = State::new(None);
    let volume = state.make("v", Access::Block).await;
    fs::write(state.data(&volume).join("disk"), [7; 1024]).unwrap();
    let source = Some(ContentSource::Volume(volume.id.clone()));
    let size = SizeRange { required: 4096, limit: None };
    let larger = Wanted { size, source, ..wanted("c", Access::Block) };
    let clone = state.create(larger).await.unwrap();
    let content = fs::read(state.data(&clone).join("disk")).unwrap();
    assert_eq!((content.len(), &content[..1024], content[1024]), (4096, &[7; 1024][..], 0));
}

#[tokio::test]
async fn a_source_decides_size_and_access_and_must_be_there() {
    let state = State::new(None);
    let volume = state.make("v", Access::Mount).await;
    let snapshot = state.snapshot("s", &volume).await;
    let sources = [ContentSource::Volume(volume.id.clone()), ContentSource::Snapshot(snapshot.id.clone())];
    for (number, source) in sources.into_iter().enumerate() {
        let with = |change: fn(&mut Wanted)| {
            let mut wanted = copy_of(&format!("c{number}"), source.clone());
            change(&mut wanted);
            state.create(wanted)
        };
        let too_small = with(|wanted| wanted.size = SizeRange { required: 1, limit: Some(1023) });
        assert_eq!(code(too_small.await), Code::OutOfRange);
        assert_eq!(code(with(|wanted| wanted.access = Access::Block).await), Code::InvalidArgument);
        let smaller = with(|wanted| wanted.size.required = 1).await.unwrap();
        assert_eq!(smaller.capacity_bytes, 1024);
        assert_eq!(code(with(|wanted| wanted.source = None).await), Code::AlreadyExists);
    }
    let missing = [ContentSource::Volume("x".into()), ContentSource::Snapshot("x".into())];
    for source in missing {
        assert_eq!(code(state.create(copy_of("c", source)).await), Code::NotFound);
    }
    assert_eq!(code(state.take("t", &VolumeId::from("x")).await), Code::NotFound);
    let other = state.make("w", Access::Mount).await;
    assert_eq!(code(state.take("s", &other.id).await), Code::AlreadyExists);
    assert_eq!(state.names(), ["v", "c0", "c1", "w"]);
}

#[tokio::test]
async fn snapshots_and_volumes_share_the_capacity() {
    let state = State::new(Some(2048));
    let volume = state.make("v", Access::Mount).await;
    let snapshot = state.snapshot("s", &volume).await;
    assert_eq!(state.taken(), 2048);
    assert_eq!(code(state.take("t", &volume.id).await), Code::ResourceExhausted);
    let clone = copy_of("c", ContentSource::Volume(volume.id.clone()));
    assert_eq!(code(state.create(clone.clone()).await), Code::ResourceExhausted);
    state.snapshots().delete(&snapshot.id).await.unwrap();
    state.create(clone).await.unwrap();
    assert_eq!(state.taken(), 2048);
}

#[tokio::test]
async fn what_is_being_copied_is_not_deleted_and_is_published_all_the_same() {
    use csi_proto::csi::v1::volume_capability::access_mode::Mode;
    let state = State::new(None);
    let volume = state.make("v", Access::Mount).await;
    let snapshot = state.snapshot("s", &volume).await;
    let original = state.volumes().original(&volume.id).await.unwrap();
    let other = state.snapshots().original(&snapshot.id).await.unwrap();
    assert_eq!(code(state.volumes().delete(&volume.id).await), Code::Aborted);
    assert_eq!(code(state.snapshots().delete(&snapshot.id).await), Code::Aborted);
    let at = Publication { node_id: "n".into(), access_mode: Mode::SingleNodeWriter, readonly: false };
    let published = timeout(Duration::from_secs(10), state.volumes().publish(&volume.id, at, None));
    published.await.expect("publishing does not wait for a copy").unwrap();
    state.volumes().unpublish(&volume.id, None).await.unwrap();
    drop((original, other));
    state.volumes().delete(&volume.id).await.unwrap();
    state.snapshots().delete(&snapshot.id).await.unwrap();
}

#[tokio::test]
async fn a_copy_that_was_cut_off_is_removed_with_what_it_has() {
    let mut state = State::new(None);
    let volume = state.make("v", Access::Mount).await;
    fs::write(state.file(&volume), "content").unwrap();
    let clone = state.create(copy_of("c", ContentSource::Volume(volume.id.clone()))).await.unwrap();
    let snapshot = state.snapshot("s", &volume).await;
    // As they are on disk while the copies are made.
    let unfinished = [
        (state.record(&clone), serde_json::to_vec(&clone.deleting()).unwrap()),
        (state.snapshot_record(&snapshot), serde_json::to_vec(&snapshot.deleting()).unwrap()),
    ];
    state
        .restart(|_| {
            for (path, record) in unfinished {
                fs::write(path, record).unwrap();
            }
        })
        .unwrap();
    assert!(!state.data(&clone).exists() && !state.snapshot_data(&snapshot).exists());
    assert_eq!((state.names(), state.taken()), (vec!["v".to_owned()], 1024));
    assert_ne!(state.snapshot("s", &volume).await.id, snapshot.id);
}

#[tokio::test]
async fn a_copy_that_failed_leaves_nothing_and_gives_its_bytes_back() {
    let state = State::new(Some(4096));
    let volume = state.make("v", Access::Mount).await;
    fs::remove_dir_all(state.data(&volume)).unwrap();
    assert_eq!(code(state.take("s", &volume.id).await), Code::Internal);
    let clone = copy_of("c", ContentSource::Volume(volume.id.clone()));
    assert_eq!(code(state.create(clone).await), Code::Internal);
    let left = |dir: &str| fs::read_dir(state.dir.path().join(dir)).unwrap().count();
    assert_eq!([left("snapshots"), left("snapshot-data"), left("data"), left("volumes")], [0, 0, 0, 1]);
    assert_eq!(state.taken(), 1024);
}

#[tokio::test]
async fn the_list_of_snapshots_is_that_of_a_volume_or_of_all() {
    let state = State::new(None);
    let (a, b) = (state.make("a", Access::Mount).await, state.make("b", Access::Mount).await);
    for (name, volume) in [("1", &a), ("2", &b), ("3", &a), ("4", &a)] {
        state.snapshot(name, volume).await;
    }
    let page = |after, limit, of| {
        let (page, next) = state.snapshots().list(after, limit, of).unwrap();
        (page.iter().map(|snapshot| snapshot.name().to_owned()).collect::<Vec<_>>().concat(), next)
    };
    assert_eq!(page(None, 3, None), ("123".to_owned(), Some(2)));
    assert_eq!(page(Some(2), 3, None), ("4".to_owned(), None));
    assert_eq!(page(None, 2, Some(&a.id)), ("13".to_owned(), Some(2)));
    assert_eq!(page(Some(2), 2, Some(&a.id)), ("4".to_owned(), None));
}

#[tokio::test]
async fn mutable_parameters_are_kept_changed_one_by_one_and_outlive_a_restart() {
    let mut state = State::new(None);
    let map = |list: &[(&str, &str)]| list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let wanted = Wanted { mutable_parameters: map(&[("iops", "1"), ("tier", "a")]), ..wanted("v", Access::Mount) };
    let volume = state.create(wanted.clone()).await.unwrap();
    state.volumes().modify(&volume.id, map(&[("iops", "2"), ("size", "s")])).await.unwrap();
    state.volumes().modify(&volume.id, map(&[])).await.unwrap();
    state.restart(|_| {}).unwrap();
    let found = state.create(wanted).await.unwrap();
    assert_eq!(found.mutable_parameters, map(&[("iops", "2"), ("tier", "a"), ("size", "s")]));
    assert_eq!(code(state.volumes().modify(&VolumeId::from("x"), map(&[])).await), Code::NotFound);
}

#[tokio::test]
async fn a_record_of_before_there_were_copies_is_read() {
    let mut state = State::new(None);
    let volume = state.make("v", Access::Mount).await;
    let path = state.record(&volume);
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let fields = record.as_object_mut().unwrap();
    for later in ["mutable_parameters", "source", "place", "published"] {
        fields.remove(later);
    }
    state.restart(|_| fs::write(path, record.to_string()).unwrap()).unwrap();
    assert_eq!(state.make("v", Access::Mount).await, volume);
}
