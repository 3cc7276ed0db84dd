"""cluster.restart(): the ranks of before have ended."""

import os

from ringside import processes


def test_a_restart_leaves_no_rank_of_before(cluster):
    before = cluster.view.apply_sync(os.getpid)
    cluster.restart()
    assert not set(cluster.view.apply_sync(os.getpid)) & set(before)
    assert not any(map(processes.alive, before))
