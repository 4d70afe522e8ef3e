//! Volumes: made, listed, removed, recovered.

use std::fs;

use tonic::Code;

use super::*;

type Broken<'a> = (&'a str, Box<dyn Fn() + 'a>);

#[tokio::test]
async fn volumes_survive_a_restart_with_their_data() {
    let mut state = State::new(None);
    let mount = state.make("m", Access::Mount).await;
    let block = state.make("b", Access::Block).await;
    fs::write(state.data(&mount).join("mount/file"), "kept").unwrap();
    assert_eq!(fs::metadata(state.data(&block).join("disk")).unwrap().len(), 1024);
    state.restart(|_| {}).unwrap();
    assert_eq!(state.make("m", Access::Mount).await, mount);
    assert_eq!(state.make("b", Access::Block).await, block);
    assert_eq!(fs::read(state.data(&mount).join("mount/file")).unwrap(), b"kept");
    assert_eq!(state.make("new", Access::Mount).await.sequence, 2);
}

#[tokio::test]
async fn deletion_takes_record_and_data_and_may_be_repeated() {
    let state = State::new(None);
    let record = state.make("a", Access::Mount).await;
    fs::write(state.data(&record).join("mount/file"), "content").unwrap();
    for _ in 0..2 {
        state.volumes().delete(&record.id).await.unwrap();
    }
    state.volumes().delete(&VolumeId::from("../../etc")).await.unwrap();
    assert!(!state.data(&record).exists() && !state.record(&record).exists());
    assert_eq!((state.volumes().len(), state.taken()), (0, 0));
}

#[tokio::test]
async fn one_name_has_one_operation_at_a_time_and_one_volume() {
    let state = State::new(None);
    let volumes = state.volumes();
    let (first, second) =
        tokio::join!(state.create(wanted("a", Access::Mount)), state.create(wanted("a", Access::Mount)),);
    let record = first.unwrap();
    assert_eq!(code(second), Code::Aborted);
    let (deleted, again) = tokio::join!(volumes.delete(&record.id), state.create(wanted("a", Access::Mount)));
    deleted.unwrap();
    assert_eq!(code(again), Code::Aborted);
    assert_ne!(state.make("a", Access::Mount).await.id, record.id);
    assert_eq!(volumes.len(), 1);
}

#[tokio::test]
async fn the_capacity_is_shared_and_given_back() {
    let state = State::new(Some(2048));
    let volumes = state.volumes();
    let first = state.make("a", Access::Mount).await;
    state.make("b", Access::Mount).await;
    assert_eq!(code(state.create(wanted("c", Access::Mount)).await), Code::ResourceExhausted);
    assert_eq!(volumes.available().unwrap(), 0);
    volumes.delete(&first.id).await.unwrap();
    assert_eq!(volumes.available().unwrap(), 1024);
    state.make("c", Access::Mount).await;
    let mut larger = wanted("d", Access::Mount);
    larger.size.required = 4096;
    assert_eq!(code(state.create(larger).await), Code::OutOfRange);
}

#[tokio::test]
async fn pages_go_on_after_a_volume_that_was_deleted() {
    let state = State::new(None);
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d"] {
        made.push(state.make(name, Access::Mount).await);
    }
    let volumes = state.volumes();
    let (page, next) = volumes.list(None, 2).unwrap();
    assert_eq!((page.len(), next), (2, Some(1)));
    volumes.delete(&made[1].id).await.unwrap();
    let (page, next) = volumes.list(next, 2).unwrap();
    assert_eq!((page[0].name.as_str(), page[1].name.as_str(), next), ("c", "d", None));
    assert_eq!(code(volumes.list(Some(4), 2)), Code::Aborted);
}

#[tokio::test]
async fn a_creation_cut_off_before_its_record_leaves_nothing() {
    let mut state = State::new(None);
    let mount = state.make("m", Access::Mount).await;
    let block = state.make("b", Access::Block).await;
    let records = [state.record(&mount), state.record(&block)];
    state
        .restart(|dir| {
            for record in &records {
                fs::remove_file(record).unwrap();
            }
            fs::write(dir.join("volumes/.half.json"), "{").unwrap();
        })
        .unwrap();
    assert!(state.names().is_empty());
    assert!(!state.data(&mount).exists() && !state.data(&block).exists());
    assert_eq!(fs::read_dir(state.dir.path().join("volumes")).unwrap().count(), 0);
}

#[tokio::test]
async fn data_without_a_record_is_kept_when_it_is_not_empty() {
    let mut state = State::new(None);
    let mount = state.make("m", Access::Mount).await;
    let file = state.data(&mount).join("mount/file");
    fs::write(&file, "precious").unwrap();
    let record = state.record(&mount);
    state.restart(|_| fs::remove_file(record).unwrap()).unwrap();
    assert!(file.exists() && state.names().is_empty());
}

#[tokio::test]
async fn a_deletion_cut_off_is_finished_at_the_next_start() {
    let mut state = State::new(None);
    let record = state.make("a", Access::Mount).await;
    fs::write(state.data(&record).join("mount/file"), "half gone").unwrap();
    let path = state.record(&record);
    state
        .restart(|_| {
            let marked = Record { deleting: true, ..Record::clone(&record) };
            fs::write(path, serde_json::to_vec(&marked).unwrap()).unwrap();
        })
        .unwrap();
    assert!(state.names().is_empty() && !state.data(&record).exists());
}

#[tokio::test]
async fn a_deletion_that_failed_is_repeated_and_its_name_gives_a_new_volume() {
    let state = State::new(None);
    let record = state.make("a", Access::Mount).await;
    // A file in the place of the data directory cannot be removed as one.
    let data = state.data(&record);
    fs::remove_dir_all(&data).unwrap();
    fs::write(&data, "").unwrap();
    assert_eq!(code(state.volumes().delete(&record.id).await), Code::Internal);
    assert_eq!(state.names(), ["a"]);
    assert_eq!(code(state.create(wanted("a", Access::Mount)).await), Code::Internal);
    fs::remove_file(&data).unwrap();
    let new = state.make("a", Access::Mount).await;
    assert_ne!(new.id, record.id);
    assert!(!state.record(&record).exists());
    assert_eq!((state.volumes().len(), state.taken()), (1, 1024));
    state.volumes().delete(&record.id).await.unwrap();
    assert_eq!(state.names(), ["a"]);
}

#[tokio::test]
async fn records_that_cannot_be_understood_end_the_start_and_nothing_is_touched() {
    let mut state = State::new(None);
    let record = state.make("a", Access::Mount).await;
    let path = state.record(&record);
    let good = fs::read_to_string(&path).unwrap();
    let other = path.with_file_name("7c9e6679-7425-40de-944b-e07fc1f90ae7.json");
    let broken: [Broken<'_>; 4] = [
        ("cannot be read", Box::new(|| fs::write(&path, "{").unwrap())),
        ("format 2", Box::new(|| fs::write(&path, good.replace("\"format\": 1", "\"format\": 2")).unwrap())),
        ("the record of volume", Box::new(|| fs::write(&other, &good).unwrap())),
        (
            "same name",
            Box::new(|| {
                let copy = good.replace(&record.id.to_string(), "7c9e6679-7425-40de-944b-e07fc1f90ae7");
                fs::write(&other, copy).unwrap();
            }),
        ),
    ];
    for (part, make_broken) in broken {
        fs::write(&path, &good).unwrap();
        let _ = fs::remove_file(&other);
        let message = state.restart(|_| make_broken()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert!(state.data(&record).exists());
    }
}

#[tokio::test]
async fn one_directory_belongs_to_one_driver() {
    let state = State::new(None);
    let error = open(state.dir.path(), None).unwrap_err();
    assert!(matches!(error, Error::StateInUse(_)), "{error}");
}
