#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Trains a small network on handwritten digits, on all hosts of a torchrun together.

Each rank has the whole model, computes the gradients of its share of a batch, and sends them to all other
ranks by torch.distributed.rpc, whose TensorPipe carries them by RDMA (its transport "ibv"). Everybody then
sums them in the order of the ranks, so that all have the same weights, to the bit, and a run gives the same
weights as the next, whatever happened on the way.

A checkpoint is written by rank 0 every so many steps, and at once when any rank gets SIGUSR1. A run that finds
one goes on from there. If a rank gets SIGUSR2, all end after this epoch. Nothing here knows of shift.
"""

import argparse
import csv
import gzip
import hashlib
import os
import random
import signal
import sys
import threading
import time

# The models here are too small for more threads, and the number of threads must not depend on the host:
# other sums, other roundings.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.distributed import rpc

DIGITS = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"
TEST_SAMPLES = 297  # of 1797, the last ones


def options():
    p = argparse.ArgumentParser(description="Train a network on handwritten digits; start it by torchrun.")
    p.add_argument("--data", default=DIGITS, help="scikit-learn's digits.csv.gz (default: %(default)s)")
    p.add_argument("--seed", type=int, default=1, help="of the weights and of the samples' order")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch", type=int, default=60, help="samples of a step, of all ranks together")
    p.add_argument("--hidden", type=int, default=256, help="neurons of each of the two hidden layers")
    p.add_argument("--checkpoint", metavar="FILE", help="written and read by rank 0")
    p.add_argument("--every", type=int, default=20, metavar="STEPS", help="between checkpoints")
    p.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="of a remote procedure call")
    p.add_argument("--transport", default="ibv", help="of TensorPipe: ibv (RDMA) or uv (TCP)")
    return p.parse_args()


def digits(path):
    """Images of 8 x 8 pixels from 0 to 1, and what they show."""
    with gzip.open(path, "rt", newline="") as file:
        table = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])
    return table[:, :64] / 16, table[:, 64].long()


class Inbox:
    """What the other ranks have sent for a step. They may be one step ahead, but not two."""

    def __init__(self, world_size):
        self.world_size = world_size
        self.steps = {}
        self.changed = threading.Condition()

    def put(self, step, rank, words):
        with self.changed:
            self.steps.setdefault(step, {})[rank] = words
            self.changed.notify_all()

    def take(self, step, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.steps.get(step, ())) == self.world_size, timeout):
                raise RuntimeError(f"step {step}: not all ranks have sent their gradients within {timeout:g} s")
            return self.steps.pop(step)


# What the other ranks call by remote procedure calls is global.
inbox = None
checkpoint = None


def deliver(step, rank, words):
    inbox.put(step, rank, words)


def fetch_checkpoint():
    return checkpoint


class Trainer:
    def __init__(self, args, rank, world_size):
        self.args, self.rank, self.world_size = args, rank, world_size
        self.step = 0
        self.epoch, self.order = None, None  # of the samples
        self.wanted = {"checkpoint": False, "end": False}  # by a signal, sooner than it is due
        torch.manual_seed(args.seed)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, args.hidden), torch.nn.ReLU(),
            torch.nn.Linear(args.hidden, args.hidden), torch.nn.ReLU(),
            torch.nn.Linear(args.hidden, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.images, self.labels = digits(args.data)
        self.train_samples = len(self.images) - TEST_SAMPLES
        self.steps_per_epoch = self.train_samples // args.batch
        self.last_step = args.epochs * self.steps_per_epoch

    def others(self):
        return [r for r in range(self.world_size) if r != self.rank]

    def share(self):
        """This rank's samples of the present step."""
        epoch, batch = divmod(self.step, self.steps_per_epoch)
        if epoch != self.epoch:
            self.epoch, self.order = epoch, list(range(self.train_samples))
            random.Random(f"{self.args.seed} {epoch}").shuffle(self.order)
        whole = self.order[batch * self.args.batch:(batch + 1) * self.args.batch]
        mine = whole[self.rank::self.world_size]
        return self.images[mine], self.labels[mine]

    def one_step(self):
        """Returns the loss of the whole batch, and what any rank wants."""
        images, labels = self.share()
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(images), labels, reduction="sum") / self.args.batch
        loss.backward()
        wanted = dict(self.wanted)
        if wanted["checkpoint"]:  # not otherwise: a signal may just have come
            self.wanted["checkpoint"] = False
        gradients = [p.grad.flatten() for p in self.model.parameters()]
        total = self.exchange(torch.cat(gradients + [torch.tensor([loss.item(), *wanted.values()])]))
        at = 0
        for p in self.model.parameters():
            p.grad.copy_(total[at:at + p.numel()].view_as(p))
            at += p.numel()
        self.optimizer.step()
        self.step += 1
        return total[at].item(), dict(zip(wanted, total[at + 1:] > 0))

    def exchange(self, words):
        """The sum of the words of all ranks."""
        inbox.put(self.step, self.rank, words)
        calls = [rpc.rpc_async(f"rank{r}", deliver, (self.step, self.rank, words)) for r in self.others()]
        torch.futures.wait_all(calls)
        parts = inbox.take(self.step, self.args.timeout)
        total = parts[0].clone()
        for r in range(1, self.world_size):
            total += parts[r]
        return total

    def state(self):
        return {"step": self.step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def save(self):
        torch.save(self.state(), self.args.checkpoint + ".new")
        os.replace(self.args.checkpoint + ".new", self.args.checkpoint)
        print(f"checkpoint at step {self.step}", flush=True)

    def resume(self):
        """From the checkpoint that rank 0 has found, if any."""
        state = checkpoint if self.rank == 0 else rpc.rpc_sync("rank0", fetch_checkpoint)
        if not state:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        if self.rank == 0:
            print(f"resumed at step {self.step}", flush=True)

    def train(self):
        enough = False
        while self.step < self.last_step and not enough:
            started = time.monotonic()
            loss, wanted = self.one_step()
            self.tell(loss, time.monotonic() - started)
            if self.rank == 0 and self.args.checkpoint and (wanted["checkpoint"] or self.step % self.args.every == 0):
                self.save()
            if self.step % self.steps_per_epoch == 0:
                self.report()
                enough = wanted["end"]

    def tell(self, loss, seconds):
        """The loss has all its digits: two runs are the same if these lines are, but for the speed."""
        if self.rank == 0:
            print(f"step {self.step} of {self.last_step} loss {loss!r} {self.args.batch / seconds:.0f} samples/s",
                  flush=True)

    def report(self):
        with torch.no_grad():
            guesses = self.model(self.images[self.train_samples:]).argmax(1)
        right = (guesses == self.labels[self.train_samples:]).sum().item()
        checksum = hashlib.sha256()
        for p in self.model.parameters():
            checksum.update(p.detach().numpy().tobytes())
        print(f"epoch {self.step // self.steps_per_epoch}: {right} of {TEST_SAMPLES} test images right, "
              f"weights {checksum.hexdigest()}", flush=True)


def main():
    global inbox, checkpoint
    args = options()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    inbox = Inbox(world_size)
    trainer = Trainer(args, rank, world_size)

    signal.signal(signal.SIGUSR1, lambda *_: trainer.wanted.update(checkpoint=True))
    signal.signal(signal.SIGUSR2, lambda *_: trainer.wanted.update(end=True))
    if rank == 0 and args.checkpoint and os.path.exists(args.checkpoint):
        checkpoint = torch.load(args.checkpoint)
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=world_size,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                     rpc_timeout=args.timeout, _transports=[args.transport], _channels=["basic"]))
    trainer.resume()
    trainer.train()
    rpc.shutdown()


if __name__ == "__main__":
    sys.exit(main())
