"""Faults to plant in the product, each with tests of `make test` that must find it.

Most are a fault that Ringside has had, its mending taken back; the others break a rule that a
verdict, a measurement or a check rests upon. Whoever makes the tests faster, or fewer, sees by
`test_planted.py` that they still find all of these. An edit that no longer applies is made anew.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """`file` has `before` once, and `after` in its place: what a user then suffers."""

    file: str
    before: str
    after: str
    suffers: str
    tests: list[str]  # below tests/, as pytest takes them; the first that fails is enough


FAULTS = {
    # ---- scope: the judge ----
    "judge: any tag": Fault(
        "scope/judge.c",
        "return wanted == ANY_LABEL || wanted == given;",
        "return wanted == given;",
        "A rank that receives with any tag is called stuck while its message is on its way.",
        ["test_judge.py::test_judge_on_cases_made_by_hand"],
    ),
    "judge: all and any": Fault(
        "scope/judge.c",
        "if (needs == 0 || (waiter->kind == ANY ? met > 0 : met == needs))",
        "if (needs == 0 || met > 0)",
        "A Waitall of which one receive can never end hangs for ever, without a verdict.",
        ["test_judge.py::test_judge_on_cases_made_by_hand"],
    ),
    "judge: who has just moved": Fault(
        "scope/judge.c",
        "still = still && (!verdict->is_stuck[r] || w->reports[r].epoch == before[r]);",
        "still = still && (before || verdict->is_stuck[r]);",
        "A rank that has just gone on is called stuck, from a report that was old.",
        ["test_judge.py::test_judge_on_cases_made_by_hand"],
    ),
    "judge: shared locks": Fault(
        "scope/judge.c",
        "(holds->kind == EXCLUSIVE || need->tag == EXCLUSIVE)) ||",
        "holds->kind != UNKNOWN) ||",
        "Two ranks that share a window's lock are called a deadlock.",
        ["test_judge.py::test_judge_on_cases_made_by_hand"],
    ),
    "judge: roots": Fault(
        "scope/judge.c",
        "return a->name == b->name && a->tag == b->tag && a->waiter == b->waiter &&",
        "return a->name == b->name && a->waiter == b->waiter &&",
        "A broadcast with two roots hangs, or gives wrong data, and no mismatch is named.",
        ["test_run.py::test_calls_that_do_not_fit_are_named_with_what_differs"],
    ),
    # ---- scope: messages, waits, requests ----
    "messages: sends that wait": Fault(
        "scope/messages.c",
        "return how == STANDARD && atomic_load(&scope.insist) ? SYNCHRONOUS : how;",
        "return how;",
        "cluster.insist(True) and --insist do nothing: a ring that lives on buffers passes.",
        ["test_run.py::test_insist_names_a_ring_that_only_buffers_save"],
    ),
    "messages: more than 2 GB": Fault(
        "scope/messages.c",
        "(long long)count, (long long)size, &bytes) ? LLONG_MAX : bytes;",
        "(long long)count, (long long)size, &bytes) ? LLONG_MAX : (int)bytes;",
        "A program whose receive has room for 2 GB ends by an error that it does not have.",
        ["test_run.py::test_a_receive_may_have_room_for_more_than_2_gb"],
    ),
    "messages: cut off by a drain": Fault(
        "scope/messages.c",
        "        const MPI_Errhandler before = scope_mute(one->comm->handle);\n",
        "        MPI_Errhandler before;\n"
        "        PMPI_Comm_get_errhandler(one->comm->handle, &before);\n",
        "A deadlock with a message in a matched probe aborts the program in place of a verdict.",
        ["test_run.py::test_a_message_that_a_matched_probe_holds_does_not_end_the_program"],
    ),
    "waits: no request": Fault(
        "scope/waits.c",
        "    if (*request == MPI_REQUEST_NULL) { /* an empty status is the library's own */",
        "    if (!request) {",
        "MPI_Wait for no request gives another status than without the scope.",
        ["test_run.py::test_no_request_and_less_than_nothing_are_for_the_library"],
    ),
    "waits: complete once": Fault(
        "scope/waits.c",
        "    return !*done || *err || which != MPI_UNDEFINED;",
        "    return true;",
        "A loop on Waitany with a partitioned request gets it as complete for ever.",
        ["test_run.py::test_a_persistent_request_is_complete_once"],
    ),
    "waits: any is not all": Fault(
        "scope/waits.c",
        "PMPI_Waitany(count, requests, index, status))\n"
        "    int done = 0, err;\n"
        "    call.requests = requests;\n"
        "    call.n_requests = count;\n"
        "    call.mode = ANY;\n",
        "PMPI_Waitany(count, requests, index, status))\n"
        "    int done = 0, err;\n"
        "    call.requests = requests;\n"
        "    call.n_requests = count;\n",
        "A Waitany that one of two ranks can still end is called a deadlock.",
        ["test_scope_exact.py::test_any_of_several_requests_can_be_ended_by_who_computes"],
    ),
    "requests: heard before it is asked": Fault(
        "scope/requests.c",
        "op->kind == RECV ? op->comm->handle : MPI_COMM_NULL;",
        "op->kind == UNKNOWN ? op->comm->handle : MPI_COMM_NULL;",
        "A message that is cut off ends the program before it asks for it.",
        [
            "test_run.py::test_a_message_cut_off_that_nobody_has_asked_for_does_not_end_the_program",
        ],
    ),
    "counts: what is under way": Fault(
        "scope/counts.c",
        "            own->n -= c->count < other->n ? c->count : other->n;",
        "            own->n -= c->count;",
        "A message that waits for a later cell is forgotten, and its receive called stuck.",
        ["test_scope_exact.py::test_of_two_messages_alike_the_one_left_over_is_known"],
    ),
    # ---- scope: collectives, communicators, gates, windows ----
    "collectives: lengths": Fault(
        "scope/collectives.c",
        "    p->size = count * size_of(type);",
        "    p->size = count < 0 ? size_of(type) : -1;",
        "Reductions of unlike lengths crash ranks, or give wrong sums, and nobody says why.",
        ["test_run.py::test_calls_that_do_not_fit_are_named_with_what_differs"],
    ),
    "collectives: what each pair exchanges": Fault(
        "scope/collectives.c",
        "    p->balance = given.weighed - taken.weighed;",
        "    p->balance = (uint64_t)(given.bytes - taken.bytes);",
        "A Gatherv whose counts differ in pairs gives wrong data, and no mismatch is named.",
        ["test_scope_exact.py::test_what_each_pair_exchanges_is_compared_and_not_only_the_sums"],
    ),
    "gate: all that came before": Fault(
        "scope/gate.c",
        "return a->number == b->number && a->index == b->index && a->hash == b->hash;",
        "return a->number == b->number && a->index == b->index;",
        "A fence that meets a free is let through, and its ranks hang inside the library.",
        ["test_windows.py::test_free_against_fence"],
    ),
    "comms: attributes": Fault(
        "scope/comms.c",
        "    const int err = delete_attributes(*comm);\n",
        "    const int err = comm ? MPI_SUCCESS : delete_attributes(*comm);\n",
        "What an attribute of a communicator holds is never freed: its callback is not called.",
        ["test_scope_exact.py::test_an_attribute_is_deleted_when_its_communicator_is_freed"],
    ),
    "windows: who has completed": Fault(
        "scope/windows.c",
        "    for (int i = 0; i < n && !err; i++)\n        scope_token(targets[i]",
        "    for (int i = 1; i < n && !err; i++)\n        scope_token(targets[i]",
        "A correct program is ended in MPI_Win_wait, by a verdict that is false.",
        ["test_windows.py::test_right_programs_are_left_alone[post and start]"],
    ),
    "files: sizes": Fault(
        "scope/files.c",
        "    scope_enter(f->place, call->name, NO_ROOT)->detail = detail;",
        "    scope_enter(f->place, call->name, NO_ROOT)->detail = detail & 0;",
        "Ranks that give a file unlike sizes are not told so, and its content is anybody's guess.",
        ["test_windows.py::test_sizes_that_differ"],
    ),
    "types: freed ones": Fault(
        "scope/types.c",
        "        atomic_fetch_sub_explicit(&open_types, 1, memory_order_relaxed);",
        "        atomic_fetch_sub_explicit(&types_made, 0, memory_order_relaxed);",
        "A solution that frees its datatypes is told that it does not.",
        ["test_scope.py::test_types_that_are_never_freed_are_counted"],
    ),
    "lent: changed while it is sent": Fault(
        "scope/lent.c",
        "hash != op->lent->hash)",
        "hash == 0 * op->lent->hash)",
        "A solution that writes to an array while it is being sent is called right.",
        ["test_exercises.py::test_a_buffer_written_to_during_its_send_is_seen_whatever_its_type"],
    ),
    "unjudged: it says so": Fault(
        "scope/unjudged.c",
        '        scope_unjudged("MPI_" #name); ',
        '        if (!c) scope_unjudged("MPI_" #name); ',
        "Behind a call that is not followed a deadlock is proved that may be none.",
        ["test_windows.py::test_what_is_not_judged_says_so"],
    ),
    "report: a thread that may help": Fault(
        "scope/report.c",
        "    else if (polling || silent > 0 || (asleep > 0 && !idle))",
        "    else if (polling || (asleep > 0 && !idle))",
        "A program is ended by a deadlock while a thread of it is about to send the message.",
        ["test_run.py::test_what_the_thread_of_a_timer_sends_is_no_deadlock"],
    ),
    "outside: what a rank starts": Fault(
        "scope/outside.c",
        '        unsetenv("LD_PRELOAD");',
        '        setenv("LD_PRELOAD", getenv("LD_PRELOAD"), 1);',
        "A program that a rank starts gets the scope as well, and is taken for a rank.",
        ["test_run.py::test_what_a_rank_starts_is_not_watched"],
    ),
    # ---- scope: breaks, rounds, the end ----
    "drain: messages of all ranks": Fault(
        "scope/drain.c",
        "        ours = sum(taken > 0 ? taken : 0);",
        "        ours = sum(taken > 0) > 0 ? taken : 0;",
        "A verdict tells how many messages one rank took out, and not how many were.",
        ["test_scope.py::test_ring_of_large_sends_is_a_circle"],
    ),
    "drain: receives of before": Fault(
        "scope/drain.c",
        "    if (mine->state == IDLE) /* whoever",
        "    if (mine->state == UNKNOWN) /* whoever",
        "Who waits for a receive that an earlier verdict took out is told of a call of others.",
        ["test_scope.py::test_a_receive_that_was_begun_rightly_and_taken_out_is_told_of"],
    ),
    "rounds: one speaker": Fault(
        "scope/rounds.c",
        "    if (speaker == scope.rank)\n",
        "    if (speaker >= 0)\n",
        "A message left over is told of by every rank, four times.",
        ["test_scope.py::test_messages_left_over_are_told_once_and_stay"],
    ),
    "rounds: no MPI at exit": Fault(
        "scope/rounds.c",
        "    atomic_store(&scope.leaving, true);\n",
        "",
        "A program that exits without MPI_Finalize crashes or hangs in the scope's thread.",
        ["test_run.py::test_the_scope_calls_no_mpi_while_a_program_exits"],
    ),
    "state: handlers hear": Fault(
        "scope/state.c",
        "    if (who && err != MPI_SUCCESS && err != scope.code)\n",
        "    if (who && err == MPI_SUCCESS && err != scope.code)\n",
        "A call in a cell's C that fails is passed over in silence.",
        ["test_cfunctions.py::test_an_error_that_c_does_not_look_at_is_told_with_its_line"],
    ),
    # ---- scope: the network lens ----
    "network: latency": Fault(
        "scope/network.c",
        "    f->arrival = begin + network.latency + seconds;",
        "    f->arrival = begin + seconds;",
        "Under the lens messages arrive earlier than on the network that is shown.",
        ["test_network.py::test_nothing_arrives_early"],
    ),
    "network: nodes": Fault(
        "scope/network.c",
        "if (!scope.network || dest < 0 || node_of(dest) == node_of(scope.rank))",
        "if (!scope.network || dest < 0 || dest == scope.rank)",
        "The lens delays messages within a node, where no network is.",
        ["test_network.py::test_within_a_node_nothing_is_delayed"],
    ),
    "network: which message": Fault(
        "scope/network.c",
        "        n += from == source && label == tag;",
        "        n += from == source && label != tag;",
        "A receive ends at the time of another message.",
        ["test_network.py::test_each_receive_waits_for_its_own_message"],
    ),
    # ---- kernels ----
    "ring: no tests at all": Fault(
        "kernels/ring.c",
        "    if (s[EVERY] == 0)\n        s[EVERY] = s[CHUNKS] + 1; /* never */\n",
        "",
        "A ring that is asked to make no tests crashes in a division by zero.",
        ["test_kernels.py::test_work_changes_the_time_and_not_the_data"],
    ),
    "pingpong: its partner": Fault(
        "kernels/pingpong.c",
        "e->to = e->from = e->rank == 0 ? (int)partner : 0;",
        "e->to = e->from = e->rank == 0 ? (int)(partner > 1) + 1 : 0;",
        "Ping-pong between far ranks measures neighbours, or hangs.",
        ["test_kernels.py::test_every_length_in_bytes_arrives[pingpong-5]"],
    ),
    "message: the old one in its place": Fault(
        "kernels/message.c",
        "        wrong += *mark != LAST;\n",
        "        wrong += *mark > LAST;\n",
        "An exchange that stopped delivering is measured, and its times are printed.",
        ["test_kernels.py::test_wrong_bytes_are_caught"],
    ),
    "scaffold: the first exchange": Fault(
        "kernels/scaffold.c",
        "        if (trip == 1)\n            start = MPI_Wtime();\n",
        "",
        "The time of a short message holds the first exchange, which brings ranks into step.",
        ["test_kernels.py::test_the_first_of_several_exchanges_is_not_timed"],
    ),
    "scaffold: poison": Fault(
        "kernels/scaffold.c",
        "    if (!e->idle)\n        e->kernel->content->poison(e);\n",
        "",
        "An exchange that delivers in the first repetition alone is measured in all of them.",
        ["test_kernels.py::test_wrong_data_is_caught"],
    ),
    "scaffold: agreement": Fault(
        "kernels/scaffold.c",
        "        if (least[2 + 2 * i] != ~least[3 + 2 * i])\n",
        "        if (least[2 + 2 * i] > ~least[3 + 2 * i])\n",
        "Ranks that were asked for different lengths hang, or crash, in place of an error.",
        ["test_kernels.py::test_python_refuses_bad_input_and_goes_on"],
    ),
    "memory: a container's limit": Fault(
        "kernels/memory.c",
        "    return held < limit ? limit - held : 0;",
        "    return limit - (held < limit ? 0 : held);",
        "A kernel in a container takes memory that is in use, and is killed.",
        ["test_kernels.py::test_a_containers_limit_counts"],
    ),
    "halo: the opposite face": Fault(
        "kernels/halo.c",
        "(MPI_Aint)(s ^ 1) * e->count, e->count,",
        "(MPI_Aint)s * e->count, e->count,",
        "Of a halo method by windows the faces of two neighbours are exchanged.",
        ["test_halo.py::test_every_method_fills_the_halos_of_every_grid"],
    ),
    "halo: stale faces": Fault(
        "kernels/halo.c",
        "mark(h->neighbour[s], s ^ 1, i, e->trips)\n",
        "halo[i]\n",
        "A halo method that brings the faces of the exchange before is taken for right.",
        ["test_halo.py::test_stale_halos_are_caught"],
    ),
    "heat: the last column": Fault(
        "kernels/heat.c",
        "        advance(b, h->rate, 2, rows - 1, columns, columns);",
        "        advance(b, h->rate, 2, rows - 1, columns - 1, columns - 1);",
        "The heat equation with overlap computes wrong cells at a block's right edge.",
        ["test_heat.py::test_blocks_are_the_whole_to_the_last_bit"],
    ),
    "matrix: uneven blocks": Fault(
        "kernels/matrix.c",
        "        before += m->counts[r];",
        "        before += m->counts[0];",
        "A matrix that does not divide evenly is scattered from the wrong places.",
        ["test_matrix.py::test_every_variant_on_every_grid"],
    ),
    "blocks: what is left of a vector": Fault(
        "kernels/blocks.c",
        "e->count / e->size + (e->count % e->size > 0);",
        "e->count / e->size;",
        "The last elements of a vector that does not divide evenly are never sent.",
        ["test_bcast.py::test_every_variant_on_every_number_of_ranks"],
    ),
    # ---- cluster ----
    "deaths: because of another": Fault(
        "src/ringside/cluster/deaths.py",
        'after_another = _BY_ANOTHER if mpi.kind() == "openmpi" else ""',
        'after_another = ""',
        "On Open MPI a rank is named as dead that only lost its connection to the dead one.",
        ["test_deaths.py::test_a_rank_that_ended_because_of_another_is_not_taken_for_it"],
    ),
    "room: a container's limit": Fault(
        "src/ringside/cluster/room.py",
        "free.append(float(Path(limit).read_text()) - float(Path(usage).read_text()))",
        "free.append(float(Path(limit).read_text()) - 0 * float(Path(usage).read_text()))",
        "Ranks are started that do not fit into a container, which then kills the notebook.",
        ["test_cluster.py::test_a_containers_limit_counts"],
    ),
    "jobs: Slurm is silent": Fault(
        "src/ringside/cluster/jobs.py",
        "except ClusterError:  # silent for the moment\n                gone_since = None",
        "except ClusterError:\n                break",
        "A job goes on, and costs, though its cluster was stopped: Slurm was silent just then.",
        ["test_cluster.py::test_a_job_is_forgotten_only_when_slurm_says_that_it_is_over"],
    ),
    "jobs: a user's own defaults": Fault(
        "src/ringside/cluster/jobs.py",
        '"SRUN_", "SQUEUE_", "SCANCEL_"',
        '"SRUN_", "SCANCEL_"',
        "A job that runs is called gone where the user has set SQUEUE_PARTITION.",
        ["test_cluster.py::test_what_a_user_has_set_for_slurms_commands_does_not_hide_a_job"],
    ),
    "files: clusters of other machines": Fault(
        "src/ringside/cluster/files.py",
        r"""name = re.compile(rf"cluster-{re.escape(socket.gethostname())}-\d+")""",
        r"""name = re.compile(r"cluster-\S+-\d+")""",
        "In a shared home the clusters of other machines are cleared as dead ones.",
        ["test_cluster.py::test_only_clusters_of_this_machine_are_touched"],
    ),
    "files: process ids come again": Fault(
        "src/ringside/cluster/files.py",
        "return int(pid) if pid and processes.begun(int(pid)) == begun else None",
        "return int(pid) if pid and processes.begun(int(pid)) and begun else None",
        "A foreign process is ended that has got the id of a dead rank.",
        ["test_cluster.py::test_a_process_that_has_the_id_of_a_dead_rank_is_left_alone"],
    ),
    "keeper: once more": Fault(
        "src/ringside/cluster/keeper.py",
        "if self.asked is None and not self._again and not files.pids(self.run):",
        "if self.asked is None and self._again and not files.pids(self.run):",
        "An mpiexec that fails for a reason of its own, before it has ranks, fails the start.",
        ["test_cluster.py::test_an_mpiexec_that_fails_before_it_has_ranks_is_run_once_more"],
    ),
    "keeper: restart": Fault(
        "src/ringside/cluster/keeper.py",
        "        await self._end_ranks(grace=files.GRACE, n=before)\n",
        "        self._forget(before)\n",
        "cluster.restart() leaves the old ranks, which hold cores and memory.",
        ["test_restart.py::test_a_restart_leaves_no_rank_of_before"],
    ),
    "client: who may still help": Fault(
        "src/ringside/cluster/client.py",
        """(rank not in states or states[rank]["state"] == "idle" or rank in wanted)""",
        """(rank not in states or states[rank]["state"] == "idle")""",
        "A cell is ended as stuck though the rank that it waits for has just begun.",
        [
            "test_cluster.py::test_a_rank_that_is_wanted_and_has_its_cell_by_now_is_waited_for",
        ],
    ),
    # ---- engine ----
    "output: in its own cell": Fault(
        "src/ringside/engine/output.py",
        "        stream.catch_up()\n",
        "        continue\n",
        "What C prints is shown by a later cell, or never.",
        ["test_cfunctions.py::test_what_c_prints_is_shown_by_the_cell_that_printed_it"],
    ),
    "tracebacks: through a finally": Fault(
        "src/ringside/engine/tracebacks.py",
        "record.lineno = lines.get(id(record.frame), record.lineno)",
        "record.lineno = record.lineno or lines",
        "An error that goes through a finally points at the line of that.",
        ["test_cluster.py::test_an_error_that_goes_through_a_finally_shows_where_it_was_raised"],
    ),
    # ---- watch, draw ----
    "waitfor: who is at fault": Fault(
        "src/ringside/watch/waitfor.py",
        "    if at_end < set(stuck):",
        "    if not stuck:",
        "The headline blames ranks in MPI_Finalize for what another has left undone.",
        ["test_waitfor.py::test_who_has_ended_is_not_who_is_at_fault"],
    ),
    "waitfor: a circle first": Fault(
        "src/ringside/watch/waitfor.py",
        "        behind = groups and not around\n",
        "        behind = not groups\n",
        "A rank that only waits behind a circle takes the headline of the verdict.",
        ["test_waitfor.py::test_who_waits_in_a_collective_for_a_circle_does_not_take_its_place"],
    ),
    "messages: asked for by name": Fault(
        "src/ringside/watch/messages.py",
        "(named[channel] >= len(waiting[channel]), waiting[channel][0].start, channel)",
        "(False, waiting[channel][0].start, channel)",
        "A timeline draws a message to a receive that did not get it.",
        ["test_draw.py::test_receive_from_anyone_leaves_a_message_that_is_asked_for_by_name"],
    ),
    "calls: taken out": Fault(
        "src/ringside/draw/calls.py",
        "elif left := sum(bool(r.left) for r in alike):",
        "elif left := any(r.left for r in alike):",
        "A timeline says that one call was taken out where many were.",
        ["test_draw.py::test_a_call_that_was_taken_out_is_told_though_another_took_longer"],
    ),
    "graph: the circle": Fault(
        "src/ringside/draw/graph.py",
        "(4.5 if circle else 1.8)",
        "(1.8 if circle else 1.8)",
        "A wait-for graph does not show which ranks are the circle.",
        ["test_draw.py::test_only_the_circle_is_bold_and_shapes_tell_the_states"],
    ),
    "page: words for who sees no picture": Fault(
        "src/ringside/draw/page.py",
        "    ax.get_figure()._repr_mimebundle_ = partial(_alternative, ax.get_figure())\n",
        "",
        "A notebook's pictures have no words for a reader who does not see them.",
        ["test_accessible.py::test_a_notebook_keeps_the_sentences_of_a_picture_with_it"],
    ),
    "datatype: order of ranks": Fault(
        "src/ringside/watch/datatype.py",
        'for ranks in reversed(how["psizes"]):',
        'for ranks in how["psizes"]:',
        "The picture of a distributed array shows another rank's part.",
        ["test_datatypes.py::test_the_map_of_200_random_types_is_where_the_bytes_move"],
    ),
    "trace: arrows of chance": Fault(
        "src/ringside/watch/trace.py",
        "if m.end is None or not m.sure or m.source",
        "if m.end is None or m.source",
        "A trace shows messages as facts whose receives are guessed.",
        ["test_run.py::test_no_arrow_where_it_is_not_certain"],
    ),
    "errors: a number and its unit": Fault(
        "src/ringside/errors.py",
        r"""(?=%|(?:B|[kMG]B|min|s|ms|µs)\b)""",
        r"""(?=%|(?:B|[kMG]B|min|s|ms)\b)""",
        "A line of an error ends in a number whose unit is on the next one.",
        ["test_errors.py::test_a_number_stays_beside_its_unit"],
    ),
    # ---- measure ----
    "points: whole or not at all": Fault(
        "src/ringside/measure/points.py",
        '    new = path.with_name(f"{path.name}.new")\n',
        "    new = path\n",
        "A campaign that is killed leaves half a point, which counts as measured.",
        ["test_campaign.py::test_measured_points_survive_a_full_disk"],
    ),
    "points: of one kind": Fault(
        "src/ringside/measure/points.py",
        "        _check_conditions(plan, was, now)\n",
        "",
        "Measurements of two libraries, or machines, stand in one table.",
        ["test_campaign.py::test_another_library_machine_or_source_is_not_mixed_in"],
    ),
    "tables: rows of another point": Fault(
        "src/ringside/measure/tables.py",
        "        (*about, str(i)) for i in range(1, repetitions + 1)\n",
        "        (*about, row[5]) for row in found if row\n",
        "A point with lost repetitions counts as measured.",
        ["test_campaign.py::test_the_order_of_a_point_is_checked_before_it_is_kept"],
    ),
    "reports: the fewest ranks": Fault(
        "src/ringside/measure/reports.py",
        '.transform("first").bfill(axis=1).iloc[:, 0]',
        '.transform("first").iloc[:, 0]',
        "A report has no efficiency of a program that was not measured on the fewest ranks.",
        ["test_campaign.py::test_the_three_reports_are_what_a_hand_computes"],
    ),
    "fit: many places tried": Fault(
        "src/ringside/measure/fit/breakpoints.py",
        "chance = min(1.0, len(rivals) * float(",
        "chance = min(1.0, float(",
        "A step is found in noise many times more often than is claimed.",
        ["test_fit.py::test_no_step_is_found_where_none_is"],
    ),
    "fit: the middle": Fault(
        "src/ringside/measure/fit/repetitions.py",
        "dropped = int(len(seconds) * (100 - keep) / 200 + 1e-9)",
        "dropped = int(len(seconds) * (100 - keep) / 200 - 1e-9)",
        "Of 100 repetitions 82 are kept, and means are not those of the reports.",
        ["test_fit.py::test_middle_drops_as_many_at_either_end"],
    ),
    "fit: intervals": Fault(
        "src/ringside/measure/fit/latency.py",
        "    variance = solution.squares[0] / freedom\n",
        "    variance = solution.squares[0] / len(seconds)\n",
        "The interval of a latency holds the truth less often than it says.",
        ["test_fit.py::test_line_known_answer"],
    ),
    # ---- check ----
    "rules: messages left over": Fault(
        "src/ringside/check/rules.py",
        "if m.end is None]",
        "if m.end is None and m.sure is None]",
        "A solution that sends a message too many is called right.",
        ["test_exercises.py::test_a_message_that_nobody_receives_is_seen"],
    ),
    "verdict: the communicator": Fault(
        "src/ringside/check/verdict.py",
        "if turned and turned.rule in (rules.VALUES.name, rules.ENDS):",
        "if turned and turned.rule == rules.ENDS:",
        "A solution that uses MPI_COMM_WORLD in place of its communicator is called right.",
        ["test_exercises.py::test_the_communicator_that_is_given_is_to_be_used"],
    ),
    "verdict: the newest cell": Fault(
        "src/ringside/check/verdict.py",
        "for cell in (*reversed(_run_since), *reversed(_run_before)):",
        "for cell in (*_run_since, *reversed(_run_before)):",
        "A check judges an older cell than the one that was run last.",
        ["test_exercises.py::test_what_is_judged_is_the_newest_cell_that_ran"],
    ),
    "grade: a formula": Fault(
        "src/ringside/check/grade.py",
        'text[:1] in tuple("=+-@")',
        'text[:1] in tuple("=")',
        "What a submission says runs as a formula in the teacher's spreadsheet.",
        ["test_formulas.py::test_no_sign_of_a_formula_begins_a_field"],
    ),
    "slurm: days and hours": Fault(
        "src/ringside/check/slurm.py",
        "    if found[1] or found[4]:\n",
        "    if found[4]:\n",
        "A job script with a limit in days is judged by a limit in minutes.",
        ["test_job_script.py::test_a_time_is_read_as_slurm_reads_it"],
    ),
    "job: beyond the folder": Fault(
        "src/ringside/check/job.py",
        'return open(path if path.parent == work else folder / "nowhere", "a")',
        'return open(path, "a")',
        "A job script that is checked writes over files of its reader.",
        ["test_job_script.py::test_nothing_is_written_beyond_the_folder_of_the_trial"],
    ),
    "notebook: a check that is content": Fault(
        "notebooks/05-ring-shift-and-scaling.ipynb",
        "if cluster.events().empty:",
        "if cluster.events() is None:",
        "The check of lesson 05 calls an answer right that sends no message.",
        ["test_lessons.py::test_a_check_knows_a_wrong_answer[05-ring-shift-and-scaling]"],
    ),
    # ---- %%c, ringside run, copies ----
    "cfunctions: declarations": Fault(
        "src/ringside/cfunctions.py",
        'head = "" if letter == ";" else head + letter',
        "head += letter",
        "A function of a %%c cell that stands behind a declaration cannot be called.",
        ["test_cfunctions.py::test_prototypes_of_other_styles"],
    ),
    "run: within MPI_Finalize": Fault(
        "src/ringside/run.py",
        'where = "within" if within else "without"',
        'where = "without"',
        "A program that ends by an error in MPI_Finalize is told that it did not call that.",
        ["test_run.py::test_a_rank_that_ends_within_finalize_is_told_as_that"],
    ),
    "run: the status of a killed rank": Fault(
        "src/ringside/run.py",
        "            return 128 + number\n",
        "            return code\n",
        "A script cannot tell from the status that a rank was killed.",
        ["test_run.py::test_a_rank_that_was_killed_is_named_and_its_calls_are_kept"],
    ),
    "run: shared memory": Fault(
        "src/ringside/run.py",
        "    if ours or run.interrupted or run.process.returncode != 0:\n",
        "    if ours or run.interrupted:\n",
        "Every run that the library ends leaves its shared memory, until /dev/shm is full.",
        ["test_run.py::test_no_shared_memory_is_left_where_the_library_ends_the_program"],
    ),
    "mpi: within a job": Fault(
        "src/ringside/mpi.py",
        "variables = {k: v for k, v in os.environ.items() if not k.startswith(_LAUNCHED)}",
        "variables = {k: v for k, v in os.environ.items() if k not in _LAUNCHED}",
        "In a batch job ranks on the same machine do not start, or start alone.",
        ["test_launched.py::test_what_the_launcher_of_another_has_set_is_not_handed_on"],
    ),
    "prediction: the answer stays": Fault(
        "src/ringside/prediction.py",
        "    if key not in _asked:\n",
        "    if key:\n",
        "A reader who runs a question's cell again has lost the answer.",
        ["test_prediction.py::test_a_cell_that_is_run_again_keeps_its_answer"],
    ),
    "copies: what a reader wrote": Fault(
        "copies.sh",
        '! cmp -s "$copy" "$given"; then',
        '! cmp -s "$copy" "$copy"; then',
        "A new version of the lessons writes over what a reader has written.",
        ["test_copies.py::test_what_a_reader_has_written_is_never_lost"],
    ),
    # ---- lines ----
    "origins: code that comes and goes": Fault(
        "scope/origins.c",
        "memcmp(s->lines, lines + BYTES, s->size) == 0;",
        "s->size > 0;",
        "A call is told with the line of a function that lay in the same place before.",
        ["test_origins.py::test_lines_of_code_that_comes_and_goes"],
    ),
    "origins: of the call, not of the one before": Fault(
        "scope/state.c",
        "    scope.origin = 0; /* until the call says where it was made */\n",
        "",
        "An MPI_Finalize is told with the line of the call before it.",
        ["test_origins.py::test_the_end_of_a_program_is_in_no_line"],
    ),
    "origins: kernels": Fault(
        "kernels/Makefile",
        " -fno-optimize-sibling-calls",
        "",
        "A kernel's last call is told with a line of the scaffold, whatever the variant.",
        ["test_origins.py::test_events_of_c_have_their_lines"],
    ),
    # ---- found by the cases ----
    "oversights: a request that is tested": Fault(
        "src/ringside/engine/oversights.py",
        'elif one["kind"] != "send" and not one["tested"] and (',
        "elif (",
        "A correct program is told that it has not waited for a request, of which it knows.",
        ["test_cases.py::test_case[requests: requests that are completed in every way there is]"],
    ),
    "oversights: who is nobody on purpose": Fault(
        "src/ringside/engine/oversights.py",
        "return ast.unparse(found[-1]) if all(map(_is_sum, found)) else None",
        "return ast.unparse(found[-1]) if any(map(_is_sum, found)) else None",
        "A program that sets a neighbour to MPI.PROC_NULL is told that it computed one.",
        ["test_cases.py::test_case[matching: neighbours that are nobody on purpose]"],
    ),
    "windows: a post that comes early": Fault(
        "scope/windows.c",
        "scope_heard(PMPI_Win_start(group, assertion | UNCHECKED, win)); /* all have posted */",
        "scope_heard(PMPI_Win_start(group, assertion, win));",
        "On MPICH a correct program hangs in MPI_Win_start when a later post comes early.",
        [
            "test_cases.py::test_case[one-sided: a post for a later epoch comes before that of"
            " this one]"
        ],
    ),
}
