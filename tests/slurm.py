"""A real Slurm on loopback, from Debian's packages: one controller, several virtual nodes of this
machine, each a slurmd with a port of its own, and unless it is to have none its accounting: a slurmdbd,
and a database that listens on a socket in the folder only. It needs no root, no configuration of the
machine and a few seconds to start, and ends with whoever started it."""
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

from conftest import run_program, sh
from service import eventually

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "scontrol",
            "sacct", "sacctmgr", "slurmdbd", "mariadbd")
NODES = {"n1": "fast,lab", "n2": "fast,lab", "n3": "slow,lab"}

CONF = """\
ClusterName=prony
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
SlurmdPort={first_node_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
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
MessageTimeout=3
KillWait=2
MinJobAge=2
JobAcctGatherType=jobacct_gather/none
{accounting}
MpiDefault=none
{nodes}
PartitionName=bench Nodes={names} Default=YES MaxTime=60 PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=short Nodes={names} MaxTime=1 PriorityTier=1 State=UP
PartitionName=closed Nodes={names} MaxTime=60 State=DRAIN
PartitionName=urgent Nodes={names} MaxTime=60 PriorityTier=10 PreemptMode=OFF State=UP
"""

NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none"
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations,limits,qos"""
DATABASE_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={user}
StorageLoc=accounting
PidFile={folder}/slurmdbd.pid
"""
# Who runs the tests may use `bench`, which is the default, `few`, for one job at a time, and `locked`, for
# none; not `theirs`. Of the qualities of service it may have `normal` and `brief`, in which nothing takes
# longer than a minute.
ACCOUNTS = """\
add cluster prony
add qos brief MaxWall=1 Flags=DenyOnLimit
add qos gold
add account bench,few,locked,theirs cluster=prony
add user {user} account=bench,few,locked cluster=prony DefaultAccount=bench
modify user {user} set qos=normal,brief DefaultQOS=normal
modify user {user} where account=few set MaxSubmitJobs=1
modify user {user} where account=locked set MaxSubmitJobs=0
"""
# A database of a few megabytes that may be lost with the machine, and that takes no commands but through
# its socket, where it asks nobody who he is: the folder is its owner's.
DATABASE = ("--no-defaults --skip-grant-tables --skip-networking --performance-schema=OFF "
            "--innodb-log-file-size=4M --innodb-buffer-pool-size=16M "
            "--innodb-data-file-path=ibdata1:4M:autoextend "
            "--innodb-temp-data-file-path=ibtmp1:4M:autoextend "
            "--innodb-flush-method=nosync --sync-frm=0 --aria-sync-log-dir=NEVER "
            "--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0").split()
TABLES = pathlib.Path("/usr/share/mysql/mysql_system_tables.sql")


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

    def __init__(self, folder, accounting=True):
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o700)
        self.processes = {}
        self.conf = self.folder / "slurm.conf"
        self.env = {"SLURM_CONF": str(self.conf), "MYSQL_UNIX_PORT": str(self.folder / "db.socket")}
        port, self.accounting_port, *node_ports = free_ports(2 + len(NODES))
        self.user = sh("id", "-un").strip()
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        nodes = "\n".join(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={p} CPUs=1 "
            f"Features={features}{' Gres=accel:toy:2' if name == 'n3' else ''}"
            for (name, features), p in zip(NODES.items(), node_ports))
        self.conf.write_text(CONF.format(
            user=self.user, port=port, first_node_port=node_ports[0], folder=self.folder, nodes=nodes,
            names=",".join(NODES), accounting=self.fill(ACCOUNTING if accounting else NO_ACCOUNTING)))
        (self.folder / "gres.conf").write_text("NodeName=n3 Name=accel Type=toy Count=2\n")
        try:
            self.start("munged", "--foreground", "--force", f"--key-file={key}",
                       f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                       f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed",
                       "--num-threads=2")
            eventually((self.folder / "munge.socket").exists, "munged listens")
            if accounting:
                self.make_accounting()
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

    def fill(self, text):
        return text.format(folder=self.folder, port=self.accounting_port, user=self.user)

    def make_accounting(self):
        data = self.folder / "db"
        data.mkdir()
        database = [*DATABASE, f"--datadir={data}", f"--user={self.user}"]
        sh(find("mariadbd"), *database, "--bootstrap",
           input=f"create database mysql;\nuse mysql;\n{TABLES.read_text()}")
        self.start("mariadbd", *database, f"--socket={self.folder}/db.socket",
                   f"--pid-file={self.folder}/mariadbd.pid")
        eventually((self.folder / "db.socket").exists, "the database listens")
        conf = self.folder / "slurmdbd.conf"
        conf.write_text(self.fill(DATABASE_CONF))
        conf.chmod(0o600)
        self.start_accounting()
        self.account(self.fill(ACCOUNTS))

    def start_accounting(self):
        self.start("slurmdbd", "-D")

        def listens():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.accounting_port)) == 0

        eventually(listens, "slurmdbd listens")

    def account(self, commands):
        """Commands of sacctmgr's, a line each."""
        done = run_program(["sacctmgr", "--immediate"], env={**os.environ, **self.env}, input=commands)
        assert done.status == 0 and not done.stderr, done

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

    def forget(self):
        """The controller loses all that it knows of jobs."""
        self.kill("slurmctld")
        shutil.rmtree(self.folder / "state")
        (self.folder / "state").mkdir()
        self.start_controller()
        self.idle()

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
            self.run("scancel", "--state=PENDING", "-u", self.user)
            self.run("scancel", "-u", self.user)

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def strays(self):
        """Processes that know this cluster's configuration, other than its daemons: of jobs, and of those who
        started them."""
        mark = f"SLURM_CONF={self.conf}".encode()
        known = {os.getpid(), *(process.pid for process in self.processes.values())}
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if int(entry.name) not in known and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def leftovers(self):
        """Those of them that aren't a daemon's own: slurmctld has one that runs its scripts."""
        found = []
        for pid in self.strays():
            with contextlib.suppress(OSError):
                if b"slurmscriptd" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
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
def cluster(folder, **options):
    slurm = Slurm(folder, **options)
    try:
        yield slurm
    except BaseException:
        print("\n".join(slurm.log(name)[-2000:] for name in ("slurmctld", *NODES)), file=sys.stderr)
        raise
    finally:
        slurm.stop()
