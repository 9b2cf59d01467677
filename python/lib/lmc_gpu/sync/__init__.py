"""Weights from a trainer to whoever samples with them, as deltas of what changed.

    publisher = Publisher("/dev/shm/weights")                 in the trainer, after each step
    publisher.publish(step, model.state_dict())

    subscriber = Subscriber("/dev/shm/weights")               in each sampler, or Subscriber(url)
    subscriber.prefetch()                                     while it still generates
    subscriber.apply(params)                                  in the pause

What is published is a version: an archive of all tensors (a *full*), or of what changed since the
version before (a *delta*), and a manifest. A version is known by a digest of the archives that lead
to it, so that nothing is ever applied to other bytes than it was made against:

    v00000007.json    {"run", "version", "step", "id", "delta": {"base", "file", "bytes", "digest"}}
    v00000007.delta   the archive
    latest.json       {"run", "version", "id"}                written last, and moved into its place

A subscriber that was away reads the deltas that it missed, or the last full and what follows it,
whichever is less. One that finds a publisher that was started anew takes its first full.
"""

from ._disk import DiskDelta, read_disk_delta
from ._patch import Patch
from ._publish import Publisher
from ._subscribe import Subscriber, Update
from ._transport import Directory, Server, Web

__all__ = [
    "Directory",
    "DiskDelta",
    "Patch",
    "Publisher",
    "Server",
    "Subscriber",
    "Update",
    "Web",
    "read_disk_delta",
]
