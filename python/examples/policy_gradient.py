"""A trainer and a sampler in two processes, with the policy's weights sent as deltas.

The task: say a sequence whose neighbours differ by one. The sampler generates sequences
with the weights that it has; the trainer learns from them with REINFORCE and publishes. The sampler
prefetches the next weights while it generates and applies them between two batches.

    python policy_gradient.py [--steps 60]
"""

import argparse
import multiprocessing
import tempfile
import threading

import torch
from lmc_gpu.sync import Publisher, Subscriber

TOKENS, LENGTH, BATCH = 16, 12, 64


class Policy(torch.nn.Module):
    """Predicts the next token from the last two, in bfloat16 as a served model would."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(TOKENS, 64)
        self.hidden = torch.nn.Linear(128, 256)
        self.out = torch.nn.Linear(256, TOKENS)

    def forward(self, ids):
        before = torch.nn.functional.pad(ids, (1, 0))[:, :-1]
        x = torch.cat([self.embed(before), self.embed(ids)], -1)
        return self.out(torch.relu(self.hidden(x)))


def rewards(ids):
    """How many neighbours differ by one."""
    return ((ids[:, 1:] - ids[:, :-1]).abs() == 1).float().sum(1)


def sample(policy, generator):
    """Sequences of the policy's."""
    ids = torch.randint(0, TOKENS, (BATCH, 1), generator=generator)
    with torch.no_grad():
        for _ in range(LENGTH - 1):
            chances = policy(ids)[:, -1].float().softmax(-1)
            ids = torch.cat([ids, torch.multinomial(chances, 1, generator=generator)], 1)
    return ids


def sampler(place, batches, end):
    """The process that samples."""
    torch.set_num_threads(1)
    policy = Policy().to(torch.bfloat16)
    generator = torch.Generator().manual_seed(1)
    subscriber = Subscriber(place)
    subscriber.wait()
    subscriber.pull(apply_to=policy)
    while not end.is_set():
        ahead = threading.Thread(target=subscriber.prefetch)
        ahead.start()
        ids = sample(policy, generator)
        ahead.join()
        batches.put((subscriber.step, ids.tolist()))
        subscriber.apply(policy)
    batches.cancel_join_thread()


def train(steps):
    """The process that learns. Returns the mean reward of each batch."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    policy = Policy()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    context = multiprocessing.get_context("spawn")
    batches, end = context.Queue(maxsize=1), context.Event()
    history, read = [], 0
    with tempfile.TemporaryDirectory() as place:
        publisher = Publisher(place)
        publisher.publish(0, policy.to(torch.bfloat16).state_dict())
        policy.float()
        process = context.Process(target=sampler, args=(place, batches, end), daemon=True)
        process.start()
        for step in range(1, steps + 1):
            of_step, ids = batches.get(timeout=120)
            ids = torch.tensor(ids)
            reward = rewards(ids)
            logs = policy(ids[:, :-1]).log_softmax(-1)
            chosen = logs.gather(-1, ids[:, 1:, None])[..., 0].sum(1)
            loss = -((reward - reward.mean()) / (reward.std() + 1e-6) * chosen).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rounded = {k: v.to(torch.bfloat16) for k, v in policy.state_dict().items()}
            told = publisher.publish(step, rounded)
            read += told["bytes"]
            history.append(reward.mean().item())
            if step % 10 == 0:
                print(
                    f"step {step}: reward {history[-1]:.2f}, sampled {step - of_step} steps ago, "
                    f"{told['kind']} of {told['ratio']:.3f}"
                )
        end.set()
        try:
            batches.get(timeout=10)
        except Exception:
            pass
        process.join(30)
    return history


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    history = train(parser.parse_args().steps)
    print(f"mean reward at first {sum(history[:5]) / 5:.2f}, at last {sum(history[-5:]) / 5:.2f}")
