/* Calls that block, or move messages, and are not followed: whoever makes one is told so, in its
 * cell and by name, and nothing is proved there any more. See scope.h. */
#include "scope.h"

/* The call itself: out of the lock, as it may wait for others. */
#define UNJUDGED(name, S, PARAMETERS, ...)                                                       \
    UNJUDGED_AS(scope_step_out, scope_step_in, name, S, PARAMETERS, __VA_ARGS__)

#define UNJUDGED_AS(OUT, IN, name, S, PARAMETERS, ...)                                           \
    int MPI_##name##S PARAMETERS {                                                               \
        OBSERVE(name, MPI_COMM_WORLD, PMPI_##name##S(__VA_ARGS__))                               \
        scope_unjudged("MPI_" #name);                                                            \
        OUT(&call);                                                                              \
        const int err = PMPI_##name##S(__VA_ARGS__);                                             \
        IN(&call);                                                                               \
        scope_event(&call, c, NO_PEER, ANY_LABEL, 0, 0);                                         \
        return scope_end(&call, c, err);                                                         \
    }

/* ---- ranks of other worlds ---- */

UNJUDGED(Comm_spawn, ,
         (const char *command, char *argv[], int n, MPI_Info info, int root, MPI_Comm comm,
          MPI_Comm *made, int errors[]),
         command, argv, n, info, root, comm, made, errors)
UNJUDGED(Comm_spawn_multiple, ,
         (int count, char *commands[], char **argvs[], const int n[], const MPI_Info infos[],
          int root, MPI_Comm comm, MPI_Comm *made, int errors[]),
         count, commands, argvs, n, infos, root, comm, made, errors)
UNJUDGED(Comm_accept, ,
         (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made), port, info,
         root, comm, made)
UNJUDGED(Comm_connect, ,
         (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made), port, info,
         root, comm, made)
UNJUDGED(Comm_join, , (int socket, MPI_Comm *made), socket, made)

/* ---- nonblocking collective file calls ---- */

#define FILES(S, C)                                                                              \
    UNJUDGED(File_iread_all, S,                                                                  \
             (MPI_File file, void *buf, C count, MPI_Datatype type, MPI_Request *request), file, \
             buf, count, type, request)                                                          \
    UNJUDGED(File_iwrite_all, S,                                                                 \
             (MPI_File file, const void *buf, C count, MPI_Datatype type, MPI_Request *request), \
             file, buf, count, type, request)                                                    \
    UNJUDGED(File_iread_at_all, S,                                                               \
             (MPI_File file, MPI_Offset offset, void *buf, C count, MPI_Datatype type,           \
              MPI_Request *request),                                                             \
             file, offset, buf, count, type, request)                                            \
    UNJUDGED(File_iwrite_at_all, S,                                                              \
             (MPI_File file, MPI_Offset offset, const void *buf, C count, MPI_Datatype type,     \
              MPI_Request *request),                                                             \
             file, offset, buf, count, type, request)

FILES(, int)
#if LARGE_COUNTS
FILES(_c, MPI_Count)
#endif

/* ---- partitioned communication, and groups that make an intercommunicator ---- */

#if HAS_MPI_4
UNJUDGED(Psend_init, ,
         (const void *buf, int parts, MPI_Count count, MPI_Datatype type, int peer, int tag,
          MPI_Comm comm, MPI_Info info, MPI_Request *request),
         buf, parts, count, type, peer, tag, comm, info, request)
UNJUDGED(Precv_init, ,
         (void *buf, int parts, MPI_Count count, MPI_Datatype type, int peer, int tag,
          MPI_Comm comm, MPI_Info info, MPI_Request *request),
         buf, parts, count, type, peer, tag, comm, info, request)
UNJUDGED_AS(scope_step_alone, scope_step_back, Intercomm_create_from_groups, ,
            (MPI_Group own, int leader, MPI_Group others, int remote, const char *tag,
             MPI_Info info, MPI_Errhandler handler, MPI_Comm *made),
            own, leader, others, remote, tag, info, handler, made)
UNJUDGED(Session_finalize, , (MPI_Session *session), session)
#endif

/* ---- buffered messages, of which the library does not say whose they are ---- */

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
UNJUDGED(Buffer_iflush, , (MPI_Request *request), request)
UNJUDGED(Comm_iflush_buffer, , (MPI_Comm comm, MPI_Request *request), comm, request)
UNJUDGED(Session_iflush_buffer, , (MPI_Session session, MPI_Request *request), session, request)
UNJUDGED(Session_flush_buffer, , (MPI_Session session), session)
UNJUDGED(Session_detach_buffer, , (MPI_Session session, void *buffer, int *size), session, buffer,
         size)
UNJUDGED(Session_detach_buffer, _c, (MPI_Session session, void *buffer, MPI_Count *size), session,
         buffer, size)
#endif
