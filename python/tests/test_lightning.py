"""The plug-in of Lightning."""

import lmc_gpu
import pytest
from conftest import package

torch = package("torch")
lightning = package("lightning")

from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import AsyncCheckpointIO
from lmc_gpu.lightning import LmcCheckpointIO

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(64, 64)
        self.seen = []

    def training_step(self, batch, index):
        loss = (self.layer(batch) - batch).square().mean()
        self.seen.append(loss.item())
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def trainer(root, plugin, steps, **options):
    kept = ModelCheckpoint(root, monitor="loss", every_n_train_steps=2, **options)
    return lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        callbacks=[kept],
        plugins=[plugin],
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )


def data():
    # Every batch is the same: Lightning begins an epoch anew when it resumes in the middle of it.
    items = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)).repeat(4, 1)
    return torch.utils.data.DataLoader(items, batch_size=4)


@pytest.mark.parametrize(
    ("wrap", "last"), [(lambda io: io, "link"), (lambda io: io, True), (AsyncCheckpointIO, True)]
)
def test_a_run_is_saved_rotated_and_resumed(tmp_path, wrap, last):
    lightning.seed_everything(0, verbose=False)
    whole = Net()
    trainer(tmp_path / "whole", LmcCheckpointIO(), 12, save_top_k=-1).fit(whole, data())
    lightning.seed_everything(0, verbose=False)
    first = Net()
    io = wrap(LmcCheckpointIO())
    trainer(tmp_path / "run", io, 6, save_top_k=2, save_last=last).fit(first, data())
    files = sorted(f.name for f in (tmp_path / "run").iterdir())
    assert len(files) == 3 and "last.ckpt" in files
    assert (tmp_path / "run" / "last.ckpt").is_symlink() == (last == "link")
    assert (tmp_path / "run" / "last.ckpt").read_bytes()[:4] != b"PK\3\4"
    second = Net()
    trainer(tmp_path / "run", wrap(LmcCheckpointIO()), 12).fit(
        second, data(), ckpt_path=tmp_path / "run" / "last.ckpt"
    )
    assert first.seen + second.seen == whole.seen


def test_what_lightning_saved_itself_is_loaded_and_remote_places_are_refused(tmp_path):
    io = LmcCheckpointIO()
    state = {"state_dict": {"w": torch.randn(100)}, "epoch": 3, "none": None}
    torch.save(state, tmp_path / "raw.ckpt")
    io.save_checkpoint(state, tmp_path / "deep" / "x.ckpt")
    for path in (tmp_path / "raw.ckpt", tmp_path / "deep" / "x.ckpt"):
        for only in (None, True, False):
            found = io.load_checkpoint(path, weights_only=only)
            assert torch.equal(found["state_dict"]["w"], state["state_dict"]["w"])
            assert found["epoch"] == 3 and found["none"] is None
    io.remove_checkpoint(tmp_path / "raw.ckpt")
    io.remove_checkpoint(tmp_path / "raw.ckpt")
    with pytest.raises(lmc_gpu.MissingFileError, match="raw.ckpt is not there"):
        io.load_checkpoint(tmp_path / "raw.ckpt")
    with pytest.raises(lmc_gpu.ArgumentError, match="remote"):
        io.save_checkpoint(state, "s3://bucket/x.ckpt")
    with pytest.raises(TypeError, match="storage_options"):
        io.save_checkpoint(state, tmp_path / "y.ckpt", storage_options={})
