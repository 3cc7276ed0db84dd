"""JupyterHub for a class on one machine, as docs/classroom.md sets it up.

/opt/ringside/.venv/bin/jupyterhub -f /opt/ringside/hub/jupyterhub_config.py
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
IDLE = 3600  # seconds after which a kernel that does nothing ends, and its ranks with it

c = get_config()  # noqa: F821

c.JupyterHub.bind_url = "http://127.0.0.1:8000"
# Users log in as on the machine (PAM): this group, whoever else has an account there.
c.PAMAuthenticator.allowed_groups = {"students"}

# Each server runs as its user, with this environment and in a folder of lessons of the user's own.
c.Spawner.cmd = [str(HERE / "student.sh"), sys.executable]
c.Spawner.env_keep = []
c.Spawner.notebook_dir = "~/ringside"
c.Spawner.default_url = "/lab/tree/00-the-cluster.ipynb"
c.Spawner.start_timeout = 120  # a class logs in at once
c.Spawner.http_timeout = 120
c.Spawner.args = [
    "--KernelManager.transport_encryption=auto",
    "--LabApp.extension_manager=readonly",
    f"--MappingKernelManager.cull_idle_timeout={IDLE}",
    "--MappingKernelManager.cull_interval=60",
    "--MappingKernelManager.cull_connected=True",
    f"--ServerApp.shutdown_no_activity_timeout={IDLE}",
]
