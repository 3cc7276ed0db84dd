"""What runs inside an engine, which is one MPI rank."""
