"""A real Slurm on loopback, from Debian's packages: one controller and several virtual nodes of this
machine, each a slurmd with a port of its own. It needs no root, no configuration of the machine and a
second to start, and ends with whoever started it."""
import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

from conftest import sh
from service import eventually

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "scontrol")
NODES = {"n1": "fast,lab", "n2": "fast,lab", "n3": "slow,lab"}

CONF = """\
ClusterName=prony
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
SlurmdPort={first_node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=50000,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
GresTypes=accel
ReturnToService=2
SlurmdTimeout=4
SlurmctldTimeout=5
MessageTimeout=5
KillWait=2
MinJobAge=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
{nodes}
PartitionName=bench Nodes={names} Default=YES MaxTime=60 PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=short Nodes={names} MaxTime=1 PriorityTier=1 State=UP
PartitionName=closed Nodes={names} MaxTime=60 State=DRAIN
PartitionName=urgent Nodes={names} MaxTime=60 PriorityTier=10 PreemptMode=OFF State=UP
"""


def missing():
    """Programs that aren't here; what Debian puts into /usr/sbin counts."""
    return [name for name in PROGRAMS if not find(name)]


def find(name):
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


class Slurm:
    """The cluster. `env` is what programs need to use it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = {}
        self.conf = self.folder / "slurm.conf"
        self.env = {"SLURM_CONF": str(self.conf)}
        port, *node_ports = free_ports(1 + len(NODES))
        user = sh("id", "-un").strip()
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        nodes = "\n".join(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={p} CPUs=1 "
            f"Features={features}{' Gres=accel:toy:2' if name == 'n3' else ''}"
            for (name, features), p in zip(NODES.items(), node_ports))
        self.conf.write_text(CONF.format(user=user, port=port, first_node_port=node_ports[0],
                                         folder=self.folder, nodes=nodes, names=",".join(NODES)))
        (self.folder / "gres.conf").write_text("NodeName=n3 Name=accel Type=toy Count=2\n")
        try:
            self.start("munged", "--foreground", "--force", f"--key-file={key}",
                       f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                       f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed",
                       "--num-threads=2")
            eventually((self.folder / "munge.socket").exists, "munged listens")
            self.start_controller()
            for name in NODES:
                self.start_node(name)
            self.idle()
        except BaseException:
            self.stop()
            raise

    def start(self, name, *options, program=None):
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [find(program or name), *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, env={**os.environ, **self.env})
        log.close()

    def start_controller(self):
        self.start("slurmctld", "-D")

    def start_node(self, name):
        self.start(name, "-D", "-N", name, program="slurmd")

    def save(self, job):
        """Has the controller save what it knows of a job; one that dies before forgets it."""
        now = time.time()
        state = self.folder / "state" / "job_state"
        self.run("scontrol", "update", f"JobId={job}", "Comment=saved")
        eventually(lambda: state.exists() and state.stat().st_mtime > now, "the state is saved")

    def kill(self, name):
        """A daemon dies, without a word."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def run(self, *argv):
        return sh(*argv, env=self.env)

    def nodes(self):
        """State of each node."""
        try:
            lines = self.run("sinfo", "-h", "-N", "-p", "bench", "-o", "%N %t").splitlines()
        except AssertionError:  # the controller isn't there yet
            return {}
        return dict(line.split() for line in lines)

    def idle(self):
        """Waits until all nodes are there, and free."""
        eventually(lambda: list(self.nodes().values()) == ["idle"] * len(NODES), "nodes are idle")

    def jobs(self, *states):
        """Numbers of jobs that are there, by default of all that haven't ended, oldest first."""
        wanted = ",".join(states or ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED"))
        out = self.run("squeue", "-h", "-t", wanted, "-o", "%i", "-S", "i")
        return [int(line) for line in out.split()]

    def job(self, *states):
        """The only one, once it is there."""
        jobs = eventually(lambda: self.jobs(*states), f"there is a job: {states}")
        assert len(jobs) == 1, jobs
        return jobs[0]

    def occupy(self, *options):
        """A job of somebody else's that holds a node."""
        script = self.folder / "sleep.sh"
        script.write_text("#!/bin/sh\nexec sleep 600\n")
        job = int(self.run("sbatch", "--parsable", "--exclusive", "--output=/dev/null",
                           "--job-name=other", "--no-requeue", *options, script))
        eventually(lambda: job not in self.jobs("PENDING"), "it runs")
        return job

    def cancel_all(self):
        """No job is left, and the nodes are free again."""
        with contextlib.suppress(AssertionError):
            self.run("scancel", "--state=PENDING", "-u", sh("id", "-un").strip())
            self.run("scancel", "-u", sh("id", "-un").strip())

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def strays(self):
        """Processes that belong to this cluster: they know its configuration."""
        mark = f"SLURM_CONF={self.conf}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(entry.name)
                if pid != os.getpid() and mark in (entry / "environ").read_bytes():
                    found.append(pid)
        return found

    def stop(self):
        for name in reversed(list(self.processes)):
            self.kill(name)
        for pid in self.strays():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not self.strays(), "nothing of the cluster is left")


@contextlib.contextmanager
def cluster(folder):
    slurm = Slurm(folder)
    try:
        yield slurm
    except BaseException:
        print("\n".join(slurm.log(name)[-2000:] for name in ("slurmctld", *NODES)), file=sys.stderr)
        raise
    finally:
        slurm.stop()
