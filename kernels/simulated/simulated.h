/* Put before every source of a simulated kernel (-include), and nowhere else: MPI calls are led to
 * simulated.c, which notes what each rank does, and models what SimGrid's SMPI has not got. */
#ifndef SIMULATED_H
#define SIMULATED_H

#include <mpi.h>

/* Where the next call stands. Ranks change places inside MPI calls only. */
void simulated_at(const char *file, int line);

/* Work that takes the simulated machine `flops` operations, and us nothing. True. */
int simulated_work(double flops);
#define simulated_work simulated_work

int simulated_Send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
int simulated_Ssend(const void *, int, MPI_Datatype, int, int, MPI_Comm);
int simulated_Recv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
int simulated_Sendrecv(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int,
                       int, MPI_Comm, MPI_Status *);
int simulated_Isend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int simulated_Irecv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int simulated_Send_init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int simulated_Recv_init(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int simulated_Start(MPI_Request *);
int simulated_Startall(int, MPI_Request *);
int simulated_Wait(MPI_Request *, MPI_Status *);
int simulated_Waitall(int, MPI_Request *, MPI_Status *);
int simulated_Test(MPI_Request *, int *, MPI_Status *);
int simulated_Request_free(MPI_Request *);
int simulated_Barrier(MPI_Comm);
int simulated_Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
int simulated_Allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
int simulated_Reduce(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
int simulated_Allgather(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
int simulated_Scatterv(const void *, const int *, const int *, MPI_Datatype, void *, int,
                       MPI_Datatype, int, MPI_Comm);
int simulated_Gatherv(const void *, int, MPI_Datatype, void *, const int *, const int *,
                      MPI_Datatype, int, MPI_Comm);
int simulated_Alltoallw(const void *, const int *, const int *, const MPI_Datatype *, void *,
                        const int *, const int *, const MPI_Datatype *, MPI_Comm);
int simulated_Win_fence(int, MPI_Win);
int simulated_Neighbor_alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype,
                                MPI_Comm);
int simulated_Ineighbor_alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype,
                                 MPI_Comm, MPI_Request *);
int simulated_Neighbor_alltoall_init(const void *, int, MPI_Datatype, void *, int, MPI_Datatype,
                                     MPI_Comm, MPI_Info, MPI_Request *);
int simulated_Cart_create(MPI_Comm, int, const int *, const int *, int, MPI_Comm *);
int simulated_Win_allocate(MPI_Aint, int, MPI_Info, MPI_Comm, void *, MPI_Win *);
int simulated_Topo_test(MPI_Comm, int *);
int simulated_Comm_split_type(MPI_Comm, int, int, MPI_Info, MPI_Comm *);

/* SMPI's MPI_Win_shared_query gives the memory of rank 0: errata 37. */
#define SHARED_WINDOW_LACKING                                                                      \
    "it is not simulated: what ranks copy themselves takes no simulated time, and SimGrid's "      \
    "MPI_Win_shared_query gives another rank's memory"

#define SIMULATED(call) (simulated_at(__FILE__, __LINE__), call)
#define MPI_Send(...) SIMULATED(simulated_Send(__VA_ARGS__))
#define MPI_Ssend(...) SIMULATED(simulated_Ssend(__VA_ARGS__))
#define MPI_Recv(...) SIMULATED(simulated_Recv(__VA_ARGS__))
#define MPI_Sendrecv(...) SIMULATED(simulated_Sendrecv(__VA_ARGS__))
#define MPI_Isend(...) SIMULATED(simulated_Isend(__VA_ARGS__))
#define MPI_Irecv(...) SIMULATED(simulated_Irecv(__VA_ARGS__))
#define MPI_Send_init(...) SIMULATED(simulated_Send_init(__VA_ARGS__))
#define MPI_Recv_init(...) SIMULATED(simulated_Recv_init(__VA_ARGS__))
#define MPI_Start(...) SIMULATED(simulated_Start(__VA_ARGS__))
#define MPI_Startall(...) SIMULATED(simulated_Startall(__VA_ARGS__))
#define MPI_Wait(...) SIMULATED(simulated_Wait(__VA_ARGS__))
#define MPI_Waitall(...) SIMULATED(simulated_Waitall(__VA_ARGS__))
#define MPI_Test(...) SIMULATED(simulated_Test(__VA_ARGS__))
#define MPI_Request_free(...) simulated_Request_free(__VA_ARGS__)
#define MPI_Barrier(...) SIMULATED(simulated_Barrier(__VA_ARGS__))
#define MPI_Bcast(...) SIMULATED(simulated_Bcast(__VA_ARGS__))
#define MPI_Allreduce(...) SIMULATED(simulated_Allreduce(__VA_ARGS__))
#define MPI_Reduce(...) SIMULATED(simulated_Reduce(__VA_ARGS__))
#define MPI_Allgather(...) SIMULATED(simulated_Allgather(__VA_ARGS__))
#define MPI_Scatterv(...) SIMULATED(simulated_Scatterv(__VA_ARGS__))
#define MPI_Gatherv(...) SIMULATED(simulated_Gatherv(__VA_ARGS__))
#define MPI_Alltoallw(...) SIMULATED(simulated_Alltoallw(__VA_ARGS__))
#define MPI_Win_fence(...) SIMULATED(simulated_Win_fence(__VA_ARGS__))
#define MPI_Neighbor_alltoall(...) SIMULATED(simulated_Neighbor_alltoall(__VA_ARGS__))
#define MPI_Ineighbor_alltoall(...) SIMULATED(simulated_Ineighbor_alltoall(__VA_ARGS__))
#define MPI_Neighbor_alltoall_init(...) SIMULATED(simulated_Neighbor_alltoall_init(__VA_ARGS__))
#define MPI_Cart_create(...) simulated_Cart_create(__VA_ARGS__)
#define MPI_Win_allocate(...) simulated_Win_allocate(__VA_ARGS__)
#define MPI_Topo_test(...) simulated_Topo_test(__VA_ARGS__)
#define MPI_Comm_split_type(...) simulated_Comm_split_type(__VA_ARGS__)

#endif
