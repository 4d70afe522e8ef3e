//! etcd's data is put back to an earlier state under running sidecars (fault K1): nothing that was learnt before is acted on,
//! and what is new is seen.

use std::time::Duration;

use anyhow::Result;
use e2e::attach_scene::{ATTACHES, AttachScene};
use e2e::resize_scene::{Fields, RESIZES, ResizeScene};
use e2e::scene::{PATIENCE, Scene};
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, Driver, Sidecar, eventually};
use futures_util::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::lease::Brief as _;

/// What the drivers never get done, so that the sidecars try it again and again.
const DELETE: &str = "--fault=DeleteVolume:code=INTERNAL";
const UNPUBLISH: &str = "--fault=ControllerUnpublishVolume:code=INTERNAL";
const EXPAND: &str = "--fault=ControllerExpandVolume:code=INTERNAL";
/// Longer than the pause between two tries.
const LONG_ENOUGH: Duration = Duration::from_secs(4);

#[tokio::test]
async fn k1_leaders_forget_what_a_restored_store_does_not_know() -> Result<()> {
    Box::pin(Site::start(true).await?.live_through_a_restore()).await
}

#[tokio::test]
async fn k1_sidecars_without_a_lease_forget_what_a_restored_store_does_not_know() -> Result<()> {
    Box::pin(Site::start(false).await?.live_through_a_restore()).await
}

/// All three sidecars, each with a driver of its own, in one cluster.
struct Site {
    cluster: Cluster,
    elects: bool,
    volumes: Scene,
    attachments: AttachScene,
    sizes: ResizeScene,
}

impl Site {
    async fn start(elects: bool) -> Result<Self> {
        let cluster = Cluster::start().await?;
        let volumes = Scene::start_in(&cluster, "set-back", &[DELETE]).await?;
        let attachments = AttachScene::start(&cluster, "set-back", &[ATTACHES, UNPUBLISH]).await?;
        let sizes = ResizeScene::start(&cluster, "set-back", &[RESIZES, EXPAND]).await?;
        Ok(Self { cluster, elects, volumes, attachments, sizes })
    }

    async fn live_through_a_restore(mut self) -> Result<()> {
        let mut sidecars = self.sidecars().await?;
        self.volumes.claim("kept", &json!({})).await?;
        let volume = self.volumes.bound("kept").await?;
        let kept = self.volumes.handle(&volume).await?;
        self.attachments.add_node("n", "id-n").await?;
        let used = self.attachments.add_volume("used", &json!({}), &json!({})).await?;
        self.attachments.attach("a", "used", "n").await?;
        self.attachments.attached("a").await?;
        let small = self.sizes.add_claim("small", &Fields::default()).await?;
        let backup = self.cluster.backup().await?;

        self.volumes.delete_claim("kept").await?;
        self.attachments.detach("a").await?;
        self.sizes.ask("small", "2Mi").await?;
        let tried = |driver: &Driver, rpc: &str, handle: &str| -> Result<usize> {
            let calls = driver.calls(rpc)?;
            Ok(calls.iter().filter(|call| call.volume() == Some(handle)).count())
        };
        let tries = |site: &Self| -> Result<[usize; 3]> {
            Ok([
                tried(&site.volumes.driver, "DeleteVolume", &kept)?,
                tried(&site.attachments.driver, "ControllerUnpublishVolume", &used)?,
                tried(&site.sizes.driver, "ControllerExpandVolume", &small)?,
            ])
        };
        eventually::eventually("each to be tried", PATIENCE, async || {
            Ok(tries(&self)?.iter().all(|count| *count > 0).then_some(()))
        })
        .await?;
        self.write_much().await?;
        self.change_what_is_watched().await?;
        // Time for the watches to tell of it.
        self.write_much().await?;

        if self.elects {
            self.cluster.apiserver().kill().await?;
            for sidecar in &mut sidecars {
                sidecar.process().logged("stopped leading", PATIENCE).await?;
            }
        }
        self.cluster.restore(&backup).await?;
        if !self.elects {
            for sidecar in &mut sidecars {
                sidecar.process().logged("work begins anew", PATIENCE).await?;
            }
        }
        let before = tries(&self)?;

        eventually::eventually("a claim to be made", PATIENCE, async || {
            self.volumes.claim("new", &json!({})).await.map(Some)
        })
        .await?;
        self.attachments.add_volume("fresh", &json!({}), &json!({})).await?;
        self.attachments.attach("b", "fresh", "n").await?;
        let large = self.sizes.add_claim("large", &Fields::default()).await?;
        self.sizes.ask("large", "2Mi").await?;
        self.volumes.bound("new").await?;
        self.attachments.attached("b").await?;
        eventually::eventually("the new claim to be grown", PATIENCE, async || {
            Ok((tried(&self.sizes.driver, "ControllerExpandVolume", &large)? > 0).then_some(()))
        })
        .await?;
        eventually::throughout("what is wanted again is left alone", LONG_ENOUGH, async || Ok(tries(&self)? == before))
            .await?;
        assert_eq!(self.volumes.bound("kept").await?, volume);
        self.attachments.attached("a").await?;
        for sidecar in &mut sidecars {
            assert_eq!(sidecar.process().exit_code()?, None, "no restart");
        }
        Ok(())
    }

    async fn sidecars(&self) -> Result<Vec<Sidecar>> {
        let Self { volumes, attachments, sizes, elects, .. } = self;
        let settings = if *elects {
            vec![volumes.replica()?.brief(), attachments.replica()?.brief(), sizes.replica()?.brief()]
        } else {
            let alone = [
                (Role::Provisioner, &volumes.account, &volumes.driver),
                (Role::Attacher, &attachments.account, &attachments.driver),
                (Role::Resizer, &sizes.account, &sizes.driver),
            ];
            let settings =
                alone.map(|(role, account, driver)| Settings::new(role, &account.kubeconfig, &driver.address()));
            settings.into_iter().collect::<Result<_>>()?
        };
        let settings = settings.into_iter().map(|settings| settings.flag("--retry-interval-max=1s"));
        try_join_all(settings.map(e2e::scene::leading)).await
    }

    /// So that the server is behind for longer than the test looks.
    /// Each sidecar has seen a version that the restored server does not reach by itself.
    async fn change_what_is_watched(&self) -> Result<()> {
        let label = Patch::Merge(json!({ "metadata": { "labels": { "seen": "late" } } }));
        let volumes = self.volumes.volumes();
        for volume in volumes.list(&ListParams::default()).await? {
            volumes.patch(&volume.name_any(), &PatchParams::default(), &label).await?;
        }
        self.sizes.claims().patch("small", &PatchParams::default(), &label).await?;
        Ok(())
    }

    async fn write_much(&self) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.volumes.client.clone(), &self.volumes.namespace);
        let create = async |_: usize| {
            let metadata = ObjectMeta { generate_name: Some("filler-".to_owned()), ..ObjectMeta::default() };
            maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await
        };
        for hundred in 0..15 {
            try_join_all((0..100).map(|number| create(hundred * 100 + number))).await?;
        }
        Ok(())
    }
}
